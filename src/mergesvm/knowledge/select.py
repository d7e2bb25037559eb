"""Knowledge of a part: some features, some classes, or classes joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, label_kind, plain_label
from mergesvm.errors import FormError, ParameterError
from mergesvm.knowledge.algebra import Piece, merge
from mergesvm.knowledge.sums import Sums


def select(knowledge: Piece, features: Sequence[Any]) -> Piece:
    """Knowledge of some features: the sub-vectors and sub-matrices."""
    if knowledge.signature.mapped:
        raise FormError(
            f"Features are selected from columns, and this knowledge is of {knowledge.signature.features}, each of "
            f"which mixes them. Select columns before learning: scan(features=...)."
        )
    at = _positions(knowledge, features)
    names = knowledge.signature.names
    return replace(
        knowledge,
        signature=replace(
            knowledge.signature, inputs=len(at), names=None if names is None else tuple(names[i] for i in at)
        ),
        anchor=knowledge.anchor[at],
        sums=knowledge.sums[:, at],
        grams=tuple(gram[np.ix_(at, at)] for gram in knowledge.grams),
        peaks=knowledge.peaks[:, at],
    )


def only(knowledge: Piece, classes: Iterable[Label]) -> Piece:
    """Knowledge of some classes; nothing is copied but the counts and sums."""
    wanted = {plain_label(label) for label in several(classes)}
    if not wanted:
        raise ParameterError("Choose at least one class.")
    _check_known(knowledge, wanted)
    if not knowledge.per_class and wanted != set(knowledge.labels):
        raise FormError(
            "The pooled form cannot tell the classes apart again. Learn with per_class=True to choose classes later."
        )
    at = [index for index, label in enumerate(knowledge.labels) if label in wanted]
    return replace(
        knowledge,
        labels=tuple(knowledge.labels[index] for index in at),
        rows=knowledge.rows[at],
        counts=knowledge.counts[at],
        sums=knowledge.sums[at],
        grams=tuple(knowledge.grams[index] for index in at) if knowledge.per_class else knowledge.grams,
        peaks=knowledge.peaks[at] if knowledge.per_class else knowledge.peaks,
    )


def join(knowledge: Piece, groups: Mapping[Label, Iterable[Label]]) -> Piece:
    """Knowledge in which classes have become one: joining is adding."""
    taken: dict[Label, Label] = {}
    if not isinstance(groups, Mapping):
        raise ParameterError(f"Classes are joined by a mapping of a new name to the classes it takes, not {groups!r}.")
    groups = {plain_label(name): [plain_label(label) for label in several(old)] for name, old in groups.items()}
    for name, members in groups.items():
        _check_known(knowledge, set(members))
        for member in members:
            if taken.setdefault(member, name) != name:
                raise ParameterError(f"Class {member!r} cannot join both {taken[member]!r} and {name!r}.")
    for name in groups:
        if name in knowledge.labels and name not in taken:
            raise ParameterError(
                f"Class {name!r} exists and is not among those joined under its name. Add it to the list, or choose "
                f"another name."
            )
    renamed = [taken.get(label, label) for label in knowledge.labels]
    kinds = {label_kind(label) for label in renamed}
    if len(kinds) > 1:
        raise ParameterError(
            f"Joined classes need names of the same kind as the others, not {', '.join(map(repr, groups))} among "
            f"{', '.join(map(repr, knowledge.labels))}."
        )
    knowledge = replace(knowledge, signature=replace(knowledge.signature, labels=next(iter(kinds), None)))
    if not knowledge.per_class:
        return _join_pooled(knowledge, renamed)
    pieces = [
        replace(only(knowledge, [label]), labels=(name,)) for label, name in zip(knowledge.labels, renamed, strict=True)
    ]
    return merge(pieces) if pieces else knowledge


def _join_pooled(knowledge: Piece, renamed: list[Label]) -> Piece:
    fixed: dict[Label, float] = {}
    for old, new in zip(knowledge.labels, renamed, strict=True):
        weight = dict(knowledge.signature.class_weights).get(old, 1.0)
        if fixed.setdefault(new, weight) != weight:
            raise FormError(
                f"Classes that were learned with unequal weights cannot be joined in the pooled form: {old!r} weighs "
                f"{weight}, others of {new!r} weigh {fixed[new]}. Learn with per_class=True to join classes later."
            )
    weights = tuple(sorted(fixed.items(), key=repr)) if knowledge.signature.class_weights else ()
    labels = tuple(sorted(set(renamed)))
    indicator = np.array([[name == label for name in renamed] for label in labels], dtype=np.int64)
    return replace(
        knowledge,
        signature=replace(knowledge.signature, class_weights=weights),
        labels=labels,
        rows=indicator @ knowledge.rows,
        counts=indicator @ knowledge.counts,
        sums=indicator @ knowledge.sums,
    )


def several(items: Any) -> Iterable[Any]:
    """One item alone is meant as a list of one; text is one item, not its letters."""
    return [items] if isinstance(items, str) or not isinstance(items, Iterable) else items


def _check_known(knowledge: Sums, wanted: set[Label]) -> None:
    unknown = [label for label in wanted if label not in knowledge.labels]
    if unknown:
        known = ", ".join(repr(label) for label in knowledge.labels) or "none"
        raise ParameterError(f"Class {unknown[0]!r} is not known. Known classes: {known}.")


def _positions(knowledge: Sums, features: Sequence[Any]) -> NDArray[np.intp]:
    wanted = list(several(features))
    names, width = knowledge.signature.names, knowledge.width
    if wanted and all(isinstance(item, (bool, np.bool_)) for item in wanted):
        if len(wanted) != width:
            raise ParameterError(f"A mask needs one entry a feature: it has {len(wanted)}, there are {width} features.")
        wanted = np.flatnonzero(wanted).tolist()
    if not wanted:
        raise ParameterError("Select at least one feature.")
    at = []
    for item in wanted:
        if isinstance(item, str):
            if names is None or item not in names:
                known = "none, select by position" if names is None else ", ".join(repr(name) for name in names)
                raise ParameterError(f"Feature {item!r} is not known. Known names: {known}.")
            at.append(names.index(item))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool) and -width <= item < width:
            at.append(int(item) % width)
        else:
            raise ParameterError(f"Feature {item!r} is neither a name nor a position below {width}.")
    if len(set(at)) < len(at):
        raise ParameterError(f"Features may be selected only once each, not as in {wanted!r}.")
    return np.array(at, dtype=np.intp)
