"""Unit: holds some of the rows, and works on their dual variables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import DataError
from mergesvm.methods.kernel.messages import EMPTY, FinalReply, Reply, Request, RowPacket
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.row_store import LiftedStore
from mergesvm.methods.kernel.setup import TrainingSetup
from mergesvm.methods.kernel.stats import RowSummary
from mergesvm.methods.kernel.worker.dual_state import DualState, SavedState, members_of
from mergesvm.methods.kernel.worker.local_rows import LocalRows
from mergesvm.methods.kernel.worker.proposals import LocalProblems, Proposals
from mergesvm.methods.kernel.worker.scores import ScoreUpdates, Shrinking
from mergesvm.models.kernel import KernelModel
from mergesvm.models.reduction.rows import ReductionRows


class Workspace:
    """What a unit needs during training."""

    def __init__(self, state: DualState) -> None:
        self.state, self.scores, self.local = state, ScoreUpdates(state), LocalProblems(state)
        self.shrinking, self.proposals = Shrinking(state, self.scores), Proposals(state, self.local)
        self.iteration = 0


class Unit:
    """Rows with dual variables alpha and scores f = K (y alpha), in all binary problems of their classes.

    In each iteration it applies the steps of the coordinator, reports the state of its problems, and proposes rows for
    the working sets. It receives rows of other units only when they are needed there, as support vectors.
    """

    def __init__(self, batch: Batch) -> None:
        self._local = LocalRows.of(batch, 0)
        self._shared = LiftedStore()
        self._shared_labels: list[Label] = []
        self._shared_indices = EMPTY
        self._sent = np.zeros(len(self._local), dtype=bool)
        self._staged: LocalRows | None = None
        self._saved: SavedState = {}
        self._training: Workspace | None = None
        self._reduction: ReductionRows | None = None

    def size(self) -> int:
        """Number of rows."""
        return len(self._local)

    def renumber(self, first: int) -> None:
        """Set the indices of the rows among those of all units, from ``first`` on."""
        self._local = self._local.renumbered(first)

    def counts(self) -> dict[Label, int]:
        """Number of rows of each class."""
        return {label: len(rows) for label, rows in self._local.members.items()}

    def total_weights(self) -> dict[Label, float]:
        """Sum of the weights of the rows of each class."""
        weights = self._local.weights
        return {
            label: float(len(rows) if weights is None else weights[rows].sum())
            for label, rows in self._local.members.items()
        }

    def summarize(self, with_scatter: bool) -> RowSummary:
        """Statistics of the rows."""
        return self._local.summarize(with_scatter)

    def max_squared_norm(self, origin: NDArray[np.float64] | None) -> float:
        """The largest squared distance of a row from the origin."""
        return self._local.max_squared_norm(origin)

    def stage(self, new: tuple[Batch, int] | None) -> None:
        """Check new rows, with indices from the given one on, before any unit adds any."""
        self._staged = None if new is None else LocalRows.of(*new)
        numerics = self._setup.numerics
        norm = self._staged.max_squared_norm(numerics.origin) if self._staged else 0.0
        if self._staged and not numerics.kernel.is_finite(norm, numerics.dtype):
            self._staged = None
            raise DataError("Input X has values too large for the kernel. Rescale the columns.")

    def add(self) -> None:
        """Add the staged rows, with alpha = 0."""
        if self._staged is not None:
            self._local = self._local.joined(self._staged)
            self._sent = np.append(self._sent, np.zeros(len(self._staged), dtype=bool))
            self._staged = None

    def find(self, wanted: Batch | None) -> list[list[int] | None]:
        """For each wanted row, the indices of equal rows of this unit."""
        return [] if wanted is None else self._local.find(LocalRows.of(wanted, 0))

    def remove(self, indices: NDArray[np.int64]) -> None:
        """Remove rows, own and shared, none of which is a support vector any more."""
        kept = ~np.isin(self._shared_indices, indices)
        self._shared.keep(kept)
        self._shared_labels = [self._shared_labels[at] for at in np.flatnonzero(kept).tolist()]
        self._shared_indices = self._shared_indices[kept]
        removed = np.isin(self._local.indices, indices)
        for (pair, label), arrays in list(self._saved.items()):
            kept = ~removed[self._local.members.get(label, EMPTY)[: len(arrays[0])]]
            self._saved[pair, label] = arrays[0][kept], arrays[1][kept]
        self._sent = self._sent[~removed]
        self._local = self._local.without(indices)
        self._saved = {key: arrays for key, arrays in self._saved.items() if key[1] in self._local.members}

    def start(self, setup: TrainingSetup, support: RaggedArray) -> None:
        """Prepare training; ``support`` is y alpha of all support vectors, by id, for each problem."""
        self._setup = setup
        rows = np.concatenate([*members_of(self._local, setup), EMPTY])
        lifted = setup.numerics.lift(self._local.matrix[rows], self._local.indices[rows])
        state = DualState(self._local, setup, lifted, self._shared)
        state.add_shared(self._shared_labels, self._shared_indices)
        self._training = Workspace(state)
        state.load(self._saved)
        self._training.scores.add_missing(self._saved, support)

    def step(self, request: Request) -> Reply:
        """Apply a request, and propose rows for the next working sets."""
        self.apply(request)
        work, active = self._workspace, request.active
        solved = work.local.solvable(request) & (not self._setup.prefilters)
        support = EMPTY
        if solved.any():
            work.local.solve(active[solved])
            support = work.state.support(active[solved])
        stats = work.state.stats(active, request.intercepts)
        proposed = work.proposals.propose(request, solved, work.iteration)
        indices, unsent = self._local.indices, self._unsent(np.append(support, proposed.keys))
        proposed = RaggedArray(proposed.starts, indices[proposed.keys], proposed.values)
        return Reply(stats, proposed, unsent, work.shrinking.n_shrunk, indices[support] if solved.any() else None)

    def apply(self, request: Request) -> None:
        """Change alpha and scores by the steps of a request."""
        work = self._workspace
        if request.new_rows is not None:
            self._add_shared(request.new_rows)
        work.shrinking.update(request, work.scores.apply(request), work.iteration)
        work.iteration += 1

    def stats(self, intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Statistics of all problems, (problems, N_STATS)."""
        return self._workspace.state.stats(np.arange(len(intercepts)), intercepts)

    def final(self, intercepts: NDArray[np.float64]) -> FinalReply:
        """The solution of all problems, with these intercepts."""
        return self._workspace.state.final(intercepts)

    def finish(self) -> None:
        """End training: save alpha and scores, and release the memory of the rest."""
        self._workspace.shrinking.unshrink()
        self._saved = self._workspace.state.save()
        self._training = None

    def prepare_reduction(self, model: KernelModel) -> None:
        """Prepare fits of smaller models at the rows."""
        codes = np.full(len(self._local), -1, np.intp)
        for code, label in enumerate(model.labels):
            codes[self._local.members.get(label, EMPTY)] = code
        self._reduction = ReductionRows(model, as_rows(self._local.matrix, empty=True), codes, self._local.weights)

    def reduce(self, method: str, *arguments: Any) -> Any:
        """Call a method of the rows at which a smaller model is fitted."""
        assert self._reduction is not None, "prepare_reduction() comes first"
        return getattr(self._reduction, method)(*arguments)

    def finish_reduction(self) -> None:
        """Release the memory of fits."""
        self._reduction = None

    def rows_at(self, indices: NDArray[np.int64]) -> RowPacket:
        """Those of the rows with these indices that this unit holds, and that have a class."""
        rows = self._local.rows_of(indices)
        rows = rows[rows >= 0]
        rows = rows[np.isin(rows, np.concatenate([EMPTY, *self._local.members.values()]))]
        return RowPacket(self._local.indices[rows], self._local.labels_of(rows), self._local.matrix[rows])

    @property
    def _workspace(self) -> Workspace:
        assert self._training is not None, "start() comes first"
        return self._training

    def _add_shared(self, packet: RowPacket) -> None:
        """Add rows that all units need."""
        self._shared.append(self._setup.kernel.turn(self._setup.numerics.lift(packet.rows, packet.indices)))
        self._shared_labels += packet.labels
        self._shared_indices = np.append(self._shared_indices, packet.indices)
        self._workspace.state.add_shared(packet.labels, packet.indices)

    def _unsent(self, rows: NDArray[np.int64]) -> RowPacket | None:
        """The rows that were not sent before."""
        wanted = np.zeros(len(self._local), dtype=bool)
        wanted[rows] = True
        fresh = np.flatnonzero(wanted & ~self._sent)
        if not len(fresh):
            return None
        self._sent[fresh] = True
        return RowPacket(self._local.indices[fresh], self._local.labels_of(fresh), self._local.matrix[fresh])
