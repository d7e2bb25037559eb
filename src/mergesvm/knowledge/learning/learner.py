"""Learning from rows of every kind, with one set of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from numpy.typing import NDArray

from mergesvm.checks import check_flag
from mergesvm.data.batch import Batch
from mergesvm.data.cluster_table import TableColumns, memory_table
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine, PartitionedRows
from mergesvm.engines.registry import collection_spec
from mergesvm.engines.threads import resolve_engine
from mergesvm.errors import DataError, FeatureMapError, FormError, FrozenHereWarning, ParameterError, warn_caller
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity
from mergesvm.features.spec import as_map
from mergesvm.knowledge.fold_assignment import FoldAssignment, folded
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.distributed import (
    learn_batch_distributed,
    learn_collection,
    learn_partitions,
    learn_scan_distributed,
    learn_table_distributed,
)
from mergesvm.knowledge.learning.local import Progress, learn_batch, learn_scan
from mergesvm.knowledge.learning.options import SumOptions, fixed_weights, named_layout
from mergesvm.knowledge.provenance.origin import CLUSTER, MEMORY, TABLE, Origin, Provenance, now

Result = TypeVar("Result")


class Learner:
    """The checked options of :func:`mergesvm.learn`, for rows of any kind."""

    def __init__(
        self,
        *,
        features: FeatureMap | str | None,
        per_class: bool,
        class_weight: Mapping[Label, float] | None,
        anchor: Any,
        precision: str | None,
        folds: Any,
        groups: Any,
        engine: Engine | None,
        n_jobs: int | None,
        progress: Progress | None,
    ) -> None:
        if precision not in (None, "float64", "float32"):
            raise ParameterError(f"precision must be 'float64', 'float32' or None, not {precision!r}.")
        if class_weight is not None and not isinstance(class_weight, Mapping):
            raise ParameterError(f"class_weight must be a mapping of class to weight here, not {class_weight!r}.")
        per_class = check_flag("per_class", per_class)
        if class_weight and per_class:
            raise FormError(
                "class_weight is chosen when solving, unless per_class=False. Leave it out, or learn the pooled form."
            )
        if groups is not None and folds is None:
            raise ParameterError("groups needs a number of folds, such as folds=5.")
        if folds is not None and not per_class:
            raise FormError("Folds need the sums of every class, which the pooled form lacks. Use per_class=True.")
        self.features, self.per_class, self.anchor, self.precision = features, per_class, anchor, precision
        self.groups, self.progress = groups, progress
        self.threads, self.engine = resolve_engine(engine, n_jobs)
        self.class_weights = fixed_weights(class_weight or {})
        self.folding: FoldAssignment | None = None
        self.fold_numbers: NDArray[Any] | None = None
        if folds is not None:
            self.folding, self.fold_numbers = self._on_all(lambda: FoldAssignment.of(folds, groups))

    def learn_scan(self, scan: Scan) -> Knowledge:
        """Learn from files."""
        self._check_columns_of_groups()
        options = self._options(scan)
        if self.engine is None:
            partial = scan.settled(lambda: learn_scan(scan, options, self.progress))
        else:
            partial = learn_scan_distributed(scan, options, self.engine, self.progress)
        return self._with_origins(partial.required(), partial.counts)

    def learn_table(self, table: Any, label: str, **options: Any) -> Knowledge:
        """Learn from the columns of a table, in memory or on a cluster."""
        self._check_columns_of_groups()
        if isinstance(self.groups, str):
            options["keep"] = list(dict.fromkeys([*options.get("keep", ()), self.groups]))
        if collection_spec(table) is not None:
            rows, engine = self._partitioned(table, table)
            columns = TableColumns.of(rows.schema(), label, **options)
            return self._with_origins(learn_partitions(rows, columns, self._options(None), engine), CLUSTER)

        def open_table() -> tuple[TableColumns, Any]:
            arrow = memory_table(table, label)
            return TableColumns.of(arrow.schema, label, batches=arrow.to_batches(), **options), arrow

        columns, arrow = self._on_all(open_table)
        scan = columns.scan(arrow.to_batches(), "the table")
        sums = self._options(scan)
        if self.engine is not None:
            return self._with_origins(learn_table_distributed(arrow, columns, sums, self.engine), TABLE)
        return self._with_origins(learn_scan(scan, sums, self.progress).required(), TABLE)

    def learn_collection(self, X: Any, y: Any, sample_weight: Any, names: Sequence[str] | None) -> Knowledge:
        """Learn from arrays or tables whose partitions are on the workers, with labels and weights side by side."""
        if self.fold_numbers is not None:
            raise ParameterError("For rows on a cluster, folds is a number: rows are assigned to folds by a hash.")
        if isinstance(self.groups, str):
            raise ParameterError(
                f"groups={self.groups!r} names a column, and only tables have columns: pass a collection of groups, "
                f"or learn from a table, mergesvm.learn(table, label=..., groups=..., engine=engine)."
            )
        self._partitioned(X, X)
        if y is None:
            raise DataError("Labels are missing: pass y, or the name of the label column as label=.")
        beside = {"sample_weight": sample_weight, "groups": self.groups}
        given = [name for name, value in beside.items() if value is not None]
        rows, engine = self._partitioned(X, (X, y, *(beside[name] for name in given)))
        return self._with_origins(learn_collection(rows, given, names, self._options(None), engine), CLUSTER)

    def learn_arrays(self, X: Any, y: Any, sample_weight: Any, names: Sequence[str] | None) -> Knowledge:
        """Learn from rows in memory."""

        def open_batch() -> tuple[Batch, Layout]:
            batch = Batch.of(X, y, sample_weight, empty=self.engine is not None and self.engine.ranks.spmd)
            layout = named_layout(batch.rows, names)
            if self.folding is not None:
                numbers = self.fold_numbers
                if numbers is None:
                    numbers = self.folding.numbers(batch.rows, self.groups, self.threads)
                batch = folded(batch, numbers)
            return batch, layout

        batch, layout = self._on_all(open_batch)
        options = self._options(batch.rows, y)
        if self.engine is None:
            return self._with_origins(learn_batch(batch, layout, options).required(), MEMORY)
        return self._with_origins(learn_batch_distributed(batch, layout, options, self.engine), MEMORY)

    def _with_origins(self, knowledge: Knowledge, sources: str | Mapping[str, int]) -> Knowledge:
        """Give new knowledge its provenance: one id per source, made once, however the rows were divided."""

        def origins() -> Provenance:
            counts = {sources: int(knowledge.rows.sum())} if isinstance(sources, str) else sources
            when = now()
            return tuple(Origin.new(source, rows, when) for source, rows in counts.items())

        ranks = None if self.engine is None else self.engine.ranks
        # Ids are only sent if there is more than one rank that receives the knowledge.
        made = ranks.on_root(origins) if ranks is not None and ranks.everywhere else origins()
        return replace(knowledge, provenance=made) if knowledge.labels else knowledge  # not where it is not received

    def _options(self, rows: Any, labels: Any = None) -> SumOptions:
        features = self._frozen_map(rows, labels)
        precision = self.precision or ("float64" if isinstance(features, Identity) else features.dtype.name)
        return SumOptions(
            features, self.per_class, self.class_weights, precision, self.threads, self.anchor, self.folding
        )

    def _frozen_map(self, rows: Any, labels: Any) -> FeatureMap:
        """Return the map that all workers use, frozen on a sample of the rows, unless they are on a cluster (None)."""
        mapping = as_map(self.features)
        if mapping.frozen:
            return mapping
        if rows is None:
            raise FeatureMapError(
                f"{mapping!r} is not frozen, and rows on a cluster are not sampled. Freeze it on a sample first: "
                f"map.freeze(sample)."
            )

        def freeze() -> FeatureMap:
            frozen = mapping.freeze(rows, labels)
            if frozen.needs_sample:
                warn_caller(
                    f"{mapping!r} was frozen on a sample of these rows. Pieces learned elsewhere can be added only if "
                    f"they use the same map: knowledge.features, which can be saved and loaded.{frozen.precision_note}",
                    FrozenHereWarning,
                )
            return frozen

        return freeze_on_root(self.engine, freeze, rows)

    def _check_columns_of_groups(self) -> None:
        if self.fold_numbers is not None:
            raise ParameterError(
                "For files and tables, folds is a number: rows are assigned to folds by a hash, or by a column of "
                "groups."
            )
        if self.folding is not None and self.folding.by == "groups" and self.folding.column is None:
            raise ParameterError("For files and tables, groups is the name of a column.")

    def _partitioned(self, X: Any, rows: Any) -> tuple[PartitionedRows, Engine]:
        """Return the partitions of rows, which must be on the workers of the engine, and the engine."""
        found = None if self.engine is None else self.engine.partitioned(rows)
        if self.engine is not None and found is not None:
            return found, self.engine
        kind, spec = type(X), collection_spec(X)
        assert spec is not None
        raise ParameterError(
            f"{self.engine or 'This process'} cannot read rows of type {kind.__module__}.{kind.__qualname__}. "
            f"Pass the engine that holds them: engine=mergesvm.engines.{spec.class_name}(...)."
        )

    def _on_all(self, function: Callable[[], Result]) -> Result:
        """Call a function; under MPI, an error on one rank is raised on all, so that none is left waiting."""
        return function() if self.engine is None else self.engine.ranks.on_all(function)


def freeze_on_root(engine: Engine | None, freeze: Callable[[], FeatureMap], rows: Any) -> FeatureMap:
    """Call ``freeze`` on one rank, with its rows, and return the map on all ranks."""

    def checked() -> FeatureMap:
        if isinstance(rows, Rows) and not rows.n_rows:
            raise FeatureMapError(
                "The root rank has no rows to freeze the map on. Freeze it on a sample first, and pass it on all ranks."
            )
        return freeze()

    return checked() if engine is None else engine.ranks.on_root(checked)
