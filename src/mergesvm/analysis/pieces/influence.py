"""Influence of each of many pieces of knowledge on the model, from the sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.leave_one_out import NUMBERS, LeaveOneOut
from mergesvm.analysis.pieces.pieces import Pieces, named_pieces, pooled_knowledge
from mergesvm.checks import check_flag
from mergesvm.engines.threads import Threads
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions

Numbers = NDArray[np.float64]

MAX_POOLED_BYTES = 2**27
"""The Gram matrices of all pieces are pooled over the classes if they then take no more memory than this."""


@dataclass(frozen=True, eq=False)
class Influence:
    """How each piece influences the model of all pieces; arrays have one entry per piece.

    Losses are means of (1 - y f(x))^2 over the rows, by their weights, and over the binary problems; they are exact.
    Accuracies are estimates that assume normal scores within each class. "Others" are the rows of all other pieces, or
    the held-out rows if there are any.

    The model without a piece was fitted to the others, so unless C is small its loss on them is smaller. Compare pieces
    with one another, or give held-out rows, on which a good piece helps and a bad one hurts.

    Attributes
    ----------
    names : tuple of str
    rows : array of int
    change : array
        |W - W_without| / |W|, over the coefficients of all problems, each times the standard deviation of its feature.
    offset_change : array
        Root mean squared change of the scores of the mean row. (Targets are -1 and 1.)
    loss_on_piece, loss_on_piece_without : arrays
        Squared loss on the piece itself, of the model with it and of the model without it.
    loss_on_others, loss_on_others_without : arrays
    accuracy_on_piece, accuracy_on_piece_without : arrays
    accuracy_on_others, accuracy_on_others_without : arrays
    notes : tuple of str
        Why numbers are NaN, or empty.
    held_out : bool
        Whether the others are held-out rows.
    anchor : array of shape (width,)
        The mean of all rows.
    coefs_without : array of shape (pieces, problems, width) or None
        Coefficients without each piece, with ``keep_coefs=True``.
    offsets_without : array of shape (pieces, problems) or None
        Scores of the mean row without each piece.
    """

    names: tuple[str, ...]
    rows: NDArray[np.int64]
    change: Numbers
    offset_change: Numbers
    loss_on_piece: Numbers
    loss_on_piece_without: Numbers
    loss_on_others: Numbers
    loss_on_others_without: Numbers
    accuracy_on_piece: Numbers
    accuracy_on_piece_without: Numbers
    accuracy_on_others: Numbers
    accuracy_on_others_without: Numbers
    notes: tuple[str, ...]
    held_out: bool
    anchor: Numbers
    coefs_without: Numbers | None = None
    offsets_without: Numbers | None = None

    @property
    def relative_loss_reduction(self) -> Numbers:
        """Fraction by which the loss on the others falls without the piece; NaN if it is unknown."""
        with np.errstate(invalid="ignore", divide="ignore"):
            reduction: Numbers = (self.loss_on_others - self.loss_on_others_without) / self.loss_on_others
        return reduction

    def table(self) -> list[dict[str, Any]]:
        """One row per piece, the largest relative loss reduction first and NaN last."""
        columns: dict[str, list[Any]] = {
            "piece": list(self.names),
            "rows": self.rows.tolist(),
            "relative_loss_reduction": self.relative_loss_reduction.tolist(),
            **{name: getattr(self, name).tolist() for name in NUMBERS},
            "note": list(self.notes),
        }
        order = np.argsort(-self.relative_loss_reduction, kind="stable")  # NaN comes last
        return [{name: column[at] for name, column in columns.items()} for at in order.tolist()]


def influence(
    pieces: Mapping[str, Knowledge] | Sequence[Knowledge],
    C: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    fit_intercept: bool = True,
    held_out: Knowledge | None = None,
    by_class: bool = False,
    keep_coefs: bool = False,
    n_jobs: int | None = None,
) -> Influence:
    """Influence of each piece (a node, a day, a source) on the model, by leaving out one piece at a time, without data.

    For every piece p the model of ``merge(pieces) - p`` is solved exactly, and scored on the piece and on the others.

    Parameters
    ----------
    pieces : mapping of name to Knowledge, or sequence of Knowledge
        At least two. Unnamed pieces are named after their source, if they have exactly one, or their position.
    C, class_weight, multiclass, standardize, penalize_intercept, fit_intercept
        As in :func:`mergesvm.solve`.
    held_out : Knowledge, optional
        Knowledge of rows that are in no piece. Models are scored on it instead of on the other pieces.
    by_class : bool
        Whether accuracies are estimated with a covariance of the scores per class, as
        :func:`~mergesvm.analysis.expected.expected` does, instead of one for all classes, as probabilities are. This
        is more accurate where the spread differs between classes (pendigits: 94 % with one covariance, 89 % with one
        per class, measured 88 %), and takes up to twice the time. One-vs-one always does so.
    keep_coefs : bool
        Whether to keep the coefficients without each piece: pieces x problems x features numbers.
    n_jobs : int, optional
        Number of threads (default: one per core).

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> days = {f"day {day}": ms.learn(X[day::5], y[day::5]) for day in range(4)}
    >>> days["wrong"] = ms.learn(X[4::5], (y[4::5] + 1) % 3)
    >>> influence(days).table()[0]["piece"]
    'wrong'
    """
    options = SolveOptions(
        C, class_weight, multiclass, standardize, penalize_intercept, fit_intercept=fit_intercept
    ).check()
    by_class, keep_coefs = check_flag("by_class", by_class), check_flag("keep_coefs", keep_coefs)
    engine = Threads.of_jobs(n_jobs)
    names, each = named_pieces(pieces)
    # One-vs-rest without weights needs only the sum over the classes, but for accuracies by class.
    pooled = multiclass == "ovr" and class_weight is None and not by_class
    pooled &= len(each) * each[0].width ** 2 * 8 <= MAX_POOLED_BYTES
    with small_blas(each[0].width):
        aligned = Pieces.of(each, engine, pooled=pooled)
        total = aligned.total
        check_sound(total)
        if len(total.labels) < 2:
            raise KnowledgeError(
                f"Influence needs at least two classes, but all rows are of class {total.labels[0]!r}."
            )
        found = LeaveOneOut(aligned, options, _checked_held_out(held_out, total), by_class, keep_coefs).run(engine)
    rows = aligned.rows.sum(axis=1)
    return Influence(names=names, rows=rows, held_out=held_out is not None, anchor=total.anchor, **found)


def _checked_held_out(held_out: Knowledge | None, total: Knowledge) -> Knowledge | None:
    """Held-out knowledge about the anchor of the total."""
    if held_out is None:
        return None
    if not isinstance(held_out, Knowledge):
        raise TypeError(f"held_out must be knowledge, not {type(held_out).__name__}.")
    if held_out.per_class and not total.per_class and not total.signature.class_weights:
        held_out = pooled_knowledge(held_out, (held_out.pooled_gram,)[: len(held_out.grams)])
    total.signature.joined(held_out.signature, "compare", "with")
    unknown = [label for label in held_out.labels if label not in total.labels]
    if unknown:
        raise KnowledgeError(f"held_out has rows of class {unknown[0]!r}, which is in no piece. Leave them out.")
    if not held_out.labels:
        raise KnowledgeError("held_out has no rows to score the models on.")
    return held_out.about(total.anchor)
