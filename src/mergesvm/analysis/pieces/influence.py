"""What each of many pieces of knowledge does to the model, from the sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.leave_one_out import NUMBERS, LeaveOneOut
from mergesvm.analysis.pieces.pieces import Pieces, named_pieces
from mergesvm.analysis.pieces.remaining import RemainderOptions
from mergesvm.engines.threads import Threads
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.definiteness import check_sound
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions

Numbers = NDArray[np.float64]

POOLED_BYTES = 2**27
"""Gram matrices of all classes together are kept for all pieces, if they take no more memory than this."""


@dataclass(frozen=True, eq=False)
class Influence:
    """What pieces do to the model that is solved from all of them; arrays have one entry a piece.

    Losses are means of (1 - y f(x))^2 over the rows, by their weights, and over the binary problems; they are exact.
    Accuracies are estimates, for scores that are normal within each class. "Others" are the rows of all other pieces,
    or the held-out rows, if there were any.

    The model without a piece was fitted to the others: unless C is small, it has a smaller loss on them. So compare
    pieces with one another there, or give held-out rows, on which an honest piece helps and a bad one hurts.

    Attributes
    ----------
    names : tuple of str
    rows : array of int
    change : array
        |W - W_without| / |W|, over the coefficients of all problems, each times the standard deviation of its feature.
    offset_change : array
        The root of the mean squared change of the score of the mean row. (Signs are -1 and 1: that is its unit.)
    loss_on_piece, loss_on_piece_without : arrays
        The squared loss on the piece itself, of the model with it, and of the one that has never seen it.
    loss_on_others, loss_on_others_without : arrays
    accuracy_on_piece, accuracy_on_piece_without : arrays
    accuracy_on_others, accuracy_on_others_without : arrays
    notes : tuple of str
        Why numbers are NaN, or nothing.
    held_out : bool
        Whether the others are held-out rows.
    anchor : array of shape (width,)
        The mean of all rows.
    coefs_without : array of shape (pieces, problems, width) or None
        The coefficients without each piece, if they were asked for.
    offsets_without : array of shape (pieces, problems) or None
        The scores of the mean row without each piece.
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
    def suspicion(self) -> Numbers:
        """By what share the loss on the others falls if the piece is taken out; NaN where there is no telling."""
        with np.errstate(invalid="ignore", divide="ignore"):
            share: Numbers = (self.loss_on_others - self.loss_on_others_without) / self.loss_on_others
        return share

    def table(self) -> list[dict[str, Any]]:
        """One row a piece, the most suspicious first; those that cannot be judged last."""
        columns: dict[str, list[Any]] = {
            "piece": list(self.names),
            "rows": self.rows.tolist(),
            "suspicion": self.suspicion.tolist(),
            **{name: getattr(self, name).tolist() for name in NUMBERS},
            "note": list(self.notes),
        }
        order = np.argsort(-self.suspicion, kind="stable")  # NaN comes last
        return [{name: column[at] for name, column in columns.items()} for at in order.tolist()]


def influence(
    pieces: Mapping[str, Knowledge] | Sequence[Knowledge],
    C: float = 1.0,
    class_weight: Mapping[Any, float] | str | None = None,
    multiclass: str = "ovr",
    standardize: bool = False,
    *,
    penalize_intercept: bool = True,
    held_out: Knowledge | None = None,
    by_class: bool = False,
    keep_coefs: bool = False,
    n_jobs: int | None = None,
) -> Influence:
    """What each piece (a node, a day, a source) does to the model: leave it out, for all of them, with no data.

    For piece p the model of ``merge(pieces) - p`` is solved exactly, and judged on the piece and on the others.

    Parameters
    ----------
    pieces : mapping of name to Knowledge, or sequence of Knowledge
        At least two. Without names, each is called by its source, if it has exactly one, or by its place.
    C, class_weight, multiclass, standardize, penalize_intercept
        As in :func:`mergesvm.solve`.
    held_out : Knowledge, optional
        Of rows that are in no piece, on which to judge the models instead of on the other pieces.
    by_class : bool
        Whether accuracies are estimated with a covariance of the scores for each class, as
        :func:`~mergesvm.analysis.expected.expected` does, and not with one for all of them, as probabilities are. It is
        nearer the truth where classes spread unlike (pendigits: 94 % with one for all, 89 % with one for each, and 88 %
        is true), and takes up to twice the time. One-vs-one always does so.
    keep_coefs : bool
        Whether to keep the coefficients without each piece: pieces x problems x features numbers.
    n_jobs : int, optional
        Number of threads; one a core by default.

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
    SolveOptions(C, class_weight, multiclass).check()
    engine = Threads(n_jobs)
    names, each = named_pieces(pieces)
    # Of one-vs-rest without weights all but the accuracies by class follows from the sum over all classes.
    pooled = multiclass == "ovr" and class_weight is None and not by_class
    pooled &= len(each) * each[0].width ** 2 * 8 <= POOLED_BYTES
    with small_blas(each[0].width):
        stack = Pieces.joined(names, each, engine, pooled=pooled)
        total = stack.total
        check_sound(total)
        if len(total.labels) < 2:
            raise KnowledgeError(f"There is one class only, {total.labels[0]!r}: there is nothing to tell apart.")
        in_pairs = multiclass == "ovo" and len(total.labels) > 2
        terms = RemainderOptions(float(C), class_weight, in_pairs, bool(standardize), bool(penalize_intercept))
        found = LeaveOneOut(stack, terms, _checked(held_out, total), by_class, keep_coefs).judge(engine)
    return Influence(
        names=names,
        rows=stack.rows.sum(axis=1),
        **found.numbers,
        notes=found.notes,
        held_out=held_out is not None,
        anchor=total.anchor,
        coefs_without=found.coefs,
        offsets_without=found.offsets,
    )


def _checked(held_out: Knowledge | None, total: Knowledge) -> Knowledge | None:
    """Held-out knowledge about the anchor of the total."""
    if held_out is None:
        return None
    if not isinstance(held_out, Knowledge):
        raise TypeError(f"held_out has to be knowledge, not {type(held_out).__name__}.")
    if held_out.per_class and not total.per_class and not total.signature.class_weights:
        held_out = replace(
            held_out,
            signature=replace(held_out.signature, per_class=False),
            grams=(held_out.pooled_gram,)[: len(held_out.grams)],
            peaks=held_out.peaks.sum(axis=0, keepdims=True)[: len(held_out.grams)],
        )
    total.signature.joined(held_out.signature, "compare", "with")
    strangers = [label for label in held_out.labels if label not in total.labels]
    if strangers or not held_out.labels:
        what = f"are of class {strangers[0]!r}, which is in no piece" if strangers else "are none"
        raise KnowledgeError(f"The held-out rows {what}: nothing can be judged on them.")
    return held_out.about(total.anchor)
