"""Reduction: smaller models of any size from one greedy selection. ReducedPath: their accuracy by size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from numbers import Integral, Real
from operator import add
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, ParameterError
from mergesvm.models.reduction.candidates import Candidates
from mergesvm.models.reduction.fit import MarginFit
from mergesvm.models.reduction.rows import ColumnSums, Outcomes
from mergesvm.models.reduction.selection import GreedySelection

Numbers = NDArray[np.float64]
Model = TypeVar("Model")

Consult = Callable[..., Any]
"""Called as ``consult(decide, method, *arguments)``: calls a method of :class:`ReductionRows` of all units, and returns
``decide(results)``; under MPI only the root decides, and all ranks get the decision."""

Build = Callable[[Candidates, Numbers, Numbers], Model]
"""Builds a model from its vectors, the coefficients (1 + vectors, pairs), of which the first are the intercepts, and
the sums of scores that :meth:`ReductionRows.moments` returns, (pairs, 2, 3)."""

SIZE_RATIO = 1.2
"""Sizes of a path are whole numbers that grow by about this factor."""


@dataclass(frozen=True)
class ReducedSize:
    """The size of a smaller model, its coefficients, and how its predictions compare with those of the full model."""

    size: int
    coefs: Numbers
    outcomes: Outcomes

    @property
    def loss(self) -> float:
        """The accuracy of the full model minus that of this one."""
        return (self.outcomes.full - self.outcomes.reduced) / self.outcomes.total


class Reduction(Generic[Model]):
    """Selects vectors greedily, and fits and evaluates models of any number of them, each a prefix of the next.

    The state of the selection and of the fits exists at the root only; other ranks know the decisions.
    """

    def __init__(
        self,
        consult: Consult,
        on_root: Callable[[Callable[[], Any]], Any],
        candidates: Candidates,
        build: Build[Model],
    ) -> None:
        self._consult, self._on_root, self._candidates, self._build = consult, on_root, candidates, build
        self._selection: GreedySelection | None = None
        self._sums: ColumnSums | None = None
        self._fit: MarginFit | None = None
        self.selected: Candidates | None = None
        self._exhausted = False

    def fitted(self, size: int) -> ReducedSize:
        """The model of this number of vectors, or of all candidates that are independent if there are fewer."""
        self._select(size)
        assert self.selected is not None
        size = min(size, len(self.selected))
        point = self._on_root(lambda: self._start(size))
        with Threads.single_threaded_blas():  # products of a step are small: waking threads would take longer
            while point is not None:
                point = self._consult(self._next, "gradient", point)
        coefs = self._on_root(lambda: self._fit and self._fit.coefs)
        return ReducedSize(size, coefs, self._consult(lambda parts: reduce(add, parts), "outcomes", coefs))

    def smallest(self, loss: float, limit: int) -> ReducedSize | None:
        """The smallest model that loses at most this accuracy; None if none of up to ``limit`` vectors does.

        It is found by doubling and bisection, which assumes that larger models do not lose more.
        """
        low, found, size = 0, None, 1
        while found is None and low < limit:
            step = self.fitted(min(size, limit))
            if step.loss <= loss:
                found = step
            elif step.size < min(size, limit):
                return None
            else:
                low, size = step.size, 2 * size
        while found is not None and found.size - low > 1:
            step = self.fitted((low + found.size) // 2)
            if step.loss <= loss:
                found = step
            else:
                low = step.size
        return found

    def path(self, limit: int) -> ReducedPath[Model]:
        """The models of up to this number of vectors."""
        self._select(limit)
        assert self.selected is not None
        steps = [self.fitted(size) for size in path_sizes(min(limit, len(self.selected)))]
        return ReducedPath.of(steps, [self.built(step) for step in steps])

    def built(self, step: ReducedSize) -> Model:
        """The model with the vectors and coefficients of a step."""
        moments = self._consult(lambda parts: reduce(add, parts), "moments", step.coefs)
        return self._build(self.vectors_of(step), step.coefs, moments)

    def vectors_of(self, step: ReducedSize) -> Candidates:
        """The vectors of a step."""
        assert self.selected is not None
        return self.selected.take(np.arange(step.size))

    def _select(self, size: int) -> None:
        """Select at least this number of vectors, and have all units compute their kernel values."""
        known = 0 if self.selected is None else len(self.selected)
        if known >= size or self._exhausted:
            return
        wanted = min(max(size, 2 * known), len(self._candidates))
        if self.selected is None:
            chosen = self._consult(lambda parts: self._first(parts, wanted), "candidate_sums", self._candidates.vectors)
        else:
            chosen = self._on_root(lambda: self._selection and self._selection.extended(wanted))
        self._exhausted = len(chosen) < wanted or wanted == len(self._candidates)
        self.selected = self._candidates.take(chosen)
        self._consult(self._keep, "take", self.selected.vectors)

    def _first(self, parts: list[ColumnSums], size: int) -> NDArray[np.intp]:
        self._selection = GreedySelection(reduce(add, parts))
        return self._selection.extended(size)

    def _keep(self, parts: list[ColumnSums]) -> None:
        self._sums = reduce(add, parts)

    def _start(self, size: int) -> Numbers:
        assert self._sums is not None
        self._fit = MarginFit(self._sums.first(size))
        return self._fit.point

    def _next(self, gradients: list[Numbers]) -> Numbers | None:
        assert self._fit is not None
        self._fit.step(reduce(add, gradients))
        return None if self._fit.finished else self._fit.point


@dataclass(frozen=True)
class ReducedPath(Generic[Model]):
    """Smaller models of several sizes, from one greedy selection: the vectors of each are among those of the next.

    Attributes
    ----------
    sizes : array of int
        Numbers of vectors.
    accuracy, agreement : arrays
        The fraction of rows that the smaller model predicts correctly, and the fraction for which it predicts what the
        full model does.
    full_accuracy : float
        The fraction of rows that the full model predicts correctly.
    loss : array
        ``full_accuracy - accuracy``.

    Examples
    --------
    >>> import mergesvm as ms, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> model = ms.ParallelKernelSVC(gamma=1.0).fit(X, (X**2).sum(axis=1) > 1.5).model_
    >>> path = model.reduced_path(X, (X**2).sum(axis=1) > 1.5, max_support_vectors=10)
    >>> path.sizes
    array([ 1,  2,  3,  4,  5,  6,  7,  8, 10])
    >>> path.model(5)
    KernelModel of 2 classes x 2 features, 5 support vectors
    >>> bool(path.loss[-1] < 0.02)
    True
    """

    sizes: NDArray[np.int64]
    accuracy: Numbers
    agreement: Numbers
    full_accuracy: float
    _models: dict[int, Model] = field(repr=False)

    @classmethod
    def of(cls, steps: list[ReducedSize], models: list[Model]) -> ReducedPath[Model]:
        """The path of these sizes."""
        outcomes = [step.outcomes for step in steps]
        totals = np.array([each.total for each in outcomes])
        return cls(
            np.array([step.size for step in steps], dtype=np.int64),
            np.array([each.reduced for each in outcomes]) / totals,
            np.array([each.same for each in outcomes]) / totals,
            outcomes[0].full / outcomes[0].total,
            dict(zip([step.size for step in steps], models, strict=True)),
        )

    @property
    def loss(self) -> Numbers:
        """The accuracy of the full model minus that of the smaller ones."""
        return self.full_accuracy - self.accuracy

    def model(self, size: int) -> Model:
        """The model of one of the sizes."""
        if size not in self._models:
            raise ParameterError(f"There is no model of {size!r} vectors on this path. Its sizes are {self.sizes}.")
        return self._models[size]


def path_sizes(limit: int) -> list[int]:
    """Numbers of vectors from 1 to a limit.

    >>> path_sizes(20)
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20]
    """
    sizes = [1]
    while sizes[-1] < limit:
        sizes.append(min(limit, max(sizes[-1] + 1, int(sizes[-1] * SIZE_RATIO + 0.5))))
    return sizes


def check_goal(max_support_vectors: Any, loss: Any) -> None:
    """Raise an error unless exactly one of the number of vectors and the loss is given, and is valid."""
    if (max_support_vectors is None) == (loss is None):
        raise ParameterError(
            f"Give either max_support_vectors, the number of vectors, or loss, the accuracy that may be lost, not "
            f"{max_support_vectors!r} and {loss!r}."
        )
    if loss is not None and not (isinstance(loss, Real) and 0 <= float(loss) <= 1):
        raise ParameterError(f"loss must be a number from 0 to 1, such as 0.002, not {loss!r}.")
    check_size(max_support_vectors)


def check_size(max_support_vectors: Any) -> None:
    """Raise an error unless the number of vectors is None or a positive integer."""
    size = max_support_vectors
    if size is not None and not (isinstance(size, Integral) and not isinstance(size, bool) and int(size) >= 1):
        raise ParameterError(f"max_support_vectors must be a positive integer, not {size!r}.")


def path_limit(max_support_vectors: Any, model: Any) -> int:
    """The size of the largest model of a path; by default a fifth of the support vectors, at most 1,000."""
    check_size(max_support_vectors)
    n_vectors = int(model.n_support_.sum())
    if len(model.labels) < 2 or not n_vectors:
        raise FormError(f"{model!r} cannot be reduced: it has one class, or no support vectors.")
    size: int = max_support_vectors or min(1000, max(1, n_vectors // 5))
    return min(size, n_vectors)
