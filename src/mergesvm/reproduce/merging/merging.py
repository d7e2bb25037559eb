"""The claims of Zhu and others: merged equals batch at every stage, increments are fast, and nodes share the work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from mergesvm.reproduce.merging.nodes import Nodes, measure_nodes
from mergesvm.reproduce.merging.stream import ACTIVATION, Stage, Stream, stages
from mergesvm.reproduce.paper_data import PaperData, Source
from mergesvm.reproduce.reproduction import Reproduction
from mergesvm.reproduce.tables import ResultTable, Status

GUARANTEED = 1e-9
"""The difference of merged and batch that the documentation guarantees."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of slices, hidden units and nodes, and how often each is timed."""

    slices: int
    hidden: int
    nodes: tuple[int, ...]
    repeat: int


FULL = Sizes(10, 300, (1, 2, 4, 8), 2)
QUICK = Sizes(5, 50, (1, 2, 3), 1)


@dataclass
class StreamResult:
    """What was found for one data set."""

    title: str
    stages: list[Stage] = field(default_factory=list)
    nodes: list[Nodes] = field(default_factory=list)


@dataclass
class Merging(Reproduction):
    """The weighted extreme SVM on streams."""

    name: ClassVar[str] = "merging"
    size: ClassVar[tuple[float, float]] = (15, 4.6)
    n_axes: ClassVar[int] = 3

    source: Source
    seed: int
    sizes: Sizes
    chosen: Mapping[str, PaperData]
    results: dict[str, StreamResult] = field(init=False, default_factory=dict)

    def tables(self, status: Status) -> Iterator[ResultTable]:
        """For each data set the stages, and the nodes."""
        sizes = self.sizes
        for name, data in self.chosen.items():
            stream = Stream.of(data, self.source, sizes.slices, sizes.hidden, self.seed)
            result = self.results[name] = StreamResult(data.described(self.source))
            with status(f"{result.title}, {sizes.slices} stages"):
                result.stages += stages(stream, sizes.repeat)
            yield _stage_table(result, sizes)
            with status(f"{result.title}, {', '.join(map(str, sizes.nodes))} nodes"):
                result.nodes += measure_nodes(stream, sizes.nodes, sizes.repeat)
            yield _node_table(result)

    def figures(self) -> dict[str, Any]:
        """All numbers."""
        return {"sets": {name: asdict(result) for name, result in self.results.items()}}

    def remarks(self) -> list[str]:
        """What differs from the paper."""
        return [
            "The freely available text of the paper ends before its experiments, so there are no numbers of the paper "
            "beside ours. The claims of its abstract are tested: merging equals batch training, scales with nodes, and "
            "is faster than batch retraining.",
            "The data sets are stand-ins for those of the paper. Their rows are shuffled and cut into slices.",
            f"The hidden layer is that of equation 11 with {ACTIVATION} activation. The paper does not say how the "
            "weights are drawn: here uniformly from -1 to 1, for columns that are between 0 and 1 in the first slice.",
            "Several classes are learned one-vs-rest. Classes are weighted by their counts so far, n / (2 n_c), so the "
            "weights change at every stage and no row is read again.",
        ]

    def draw(self, *axes: Any) -> None:
        """Time and difference by the number of rows, and speedup by the number of nodes."""
        times, differences, speedups = axes
        for number, result in enumerate(self.results.values()):
            colour, rows = f"C{number}", [stage.rows for stage in result.stages]
            times.loglog(
                rows, [stage.batch for stage in result.stages], "s--", color=colour, label=f"{result.title}: batch"
            )
            increments = [stage.increment for stage in result.stages]
            times.loglog(rows, increments, "o-", color=colour, label=f"{result.title}: increment")
            found = [max(stage.coefficients, 1e-17) for stage in result.stages]
            differences.loglog(rows, found, "o-", color=colour, label=result.title)
            nodes = [run.nodes for run in result.nodes]
            speedup = [result.nodes[0].total / run.total for run in result.nodes]
            speedups.plot(nodes, speedup, "o-", color=colour, label=result.title)
        differences.axhline(GUARANTEED, color="tab:red", linestyle="--", label="guaranteed: 1e-9")
        speedups.plot(self.sizes.nodes, self.sizes.nodes, color="0.7", linestyle=":", label="linear")
        speedups.set_xticks(self.sizes.nodes)
        times.set(title="An increment, and retraining on all rows", xlabel="rows so far", ylabel="CPU seconds")
        differences.set(title="Merged and batch", xlabel="rows so far", ylabel="largest relative difference")
        speedups.set(title="Nodes with a core each", xlabel="nodes", ylabel="speedup over the stream")
        for each in axes:
            each.legend(fontsize="small")


def _stage_table(result: StreamResult, sizes: Sizes) -> ResultTable:
    last = result.stages[-1]
    total, retrained = (sum(getattr(stage, name) for stage in result.stages) for name in ("increment", "batch"))
    return ResultTable(
        f"{result.title}: stream of {last.rows:,} rows in {sizes.slices} slices, {sizes.hidden} hidden units; "
        f"merged and batch at every stage",
        (
            "rows",
            "increment s",
            "batch s",
            "batch / increment",
            "merged %",
            "batch %",
            "coefficients",
            "scores",
            "labels",
        ),
        [
            (
                f"{stage.rows:,}",
                f"{stage.increment:.3f}",
                f"{stage.batch:.3f}",
                f"{stage.batch / stage.increment:.1f}",
                f"{stage.merged_accuracy:.2f}",
                f"{stage.batch_accuracy:.2f}",
                f"{stage.coefficients:.0e}",
                f"{stage.scores:.0e}",
                str(stage.disagreements),
            )
            for stage in result.stages
        ],
        note=f"All stages: {total:.2f} s with increments, {retrained:.2f} s with batch retraining, in CPU time of "
        "one core.\ncoefficients, scores, labels: largest differences of merged and batch, and test rows with "
        "different labels.",
    )


def _node_table(result: StreamResult) -> ResultTable:
    one = result.nodes[0]
    rows = []
    for run in result.nodes:
        threads = ("", "")
        if run.threads is not None and one.threads is not None:
            threads = (f"{run.threads:.2f}", f"{one.threads / run.threads:.2f}")
        parts = (f"{seconds:.3f}" for seconds in (run.learning, run.merging, run.solving, run.total))
        cells = (str(run.nodes), *parts, f"{one.total / run.total:.2f}", f"{one.total / run.total / run.nodes:.2f}")
        rows.append((*cells, *threads, f"{run.coefficients:.0e}"))
    return ResultTable(
        f"{result.title}: nodes that share each slice; seconds of all stages",
        (
            "nodes",
            "learning",
            "merging",
            "solving",
            "total",
            "speedup",
            "efficiency",
            "threads s",
            "speedup",
            "difference",
        ),
        rows,
        note="learning: CPU time of the slowest node of each stage; total: with a core for each node; threads: wall "
        "time of\nlearning with as many threads; difference: of the last model's coefficients from all rows at once.",
    )
