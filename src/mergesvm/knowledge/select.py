"""Knowledge of some features, of some classes, or of merged classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.checks import listed
from mergesvm.data.labels import Label, label_kind, plain_label
from mergesvm.errors import FormError, ParameterError
from mergesvm.knowledge.algebra import Piece, added, take_classes
from mergesvm.knowledge.provenance.extent import Extent
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.sums import Sums


def select(knowledge: Piece, features: Sequence[Any]) -> Piece:
    """Return the knowledge of some features: the sub-vectors and sub-matrices."""
    if knowledge.signature.mapped:
        raise FormError(
            f"Cannot select features of {knowledge.signature.features}, each of which mixes columns. Select columns "
            f"before learning: scan(features=...)."
        )
    at = _positions(knowledge, features)
    names = knowledge.signature.names
    selected = None if names is None else tuple(names[i] for i in at)
    return replace(
        knowledge,
        signature=replace(knowledge.signature, inputs=len(at), names=selected),
        anchor=knowledge.anchor[at],
        sums=knowledge.sums[:, at],
        grams=tuple(gram[np.ix_(at, at)] for gram in knowledge.grams),
        peaks=knowledge.peaks[:, at],
    )


def only(knowledge: Piece, classes: Iterable[Label]) -> Piece:
    """Return the knowledge of some classes; Gram matrices are not copied."""
    wanted = {plain_label(label) for label in as_list(classes)}
    if not wanted:
        raise ParameterError("Choose at least one class.")
    _check_known(knowledge, wanted)
    if not knowledge.per_class and wanted != set(knowledge.labels):
        raise FormError("The pooled form cannot separate classes. Learn with per_class=True to choose classes later.")
    chosen = take_classes(knowledge, np.flatnonzero([label in wanted for label in knowledge.labels]))
    if chosen.labels == knowledge.labels:
        return chosen
    origins = restricted(knowledge.provenance, lambda extent: extent.of_classes(wanted, knowledge.labels))
    return replace(chosen, provenance=origins)


def restricted(provenance: Provenance, change: Callable[[Extent], Extent]) -> Provenance:
    """Return the origins of a part of the rows, where they have ids."""
    change = lru_cache(change)  # nearly always they are the same
    return tuple(
        origin if origin.id is None else origin._replace(extent=change(origin.extent)) for origin in provenance
    )


def join(knowledge: Piece, groups: Mapping[Label, Iterable[Label]]) -> Piece:
    """Return the knowledge in which groups of classes are merged into one each, by adding their sums."""
    new_names: dict[Label, Label] = {}
    if not isinstance(groups, Mapping):
        raise ParameterError(f"groups must map each new class to the classes that it replaces, not {groups!r}.")
    groups = {plain_label(name): [plain_label(label) for label in as_list(old)] for name, old in groups.items()}
    for name, members in groups.items():
        _check_known(knowledge, set(members))
        for member in members:
            if new_names.setdefault(member, name) != name:
                raise ParameterError(f"Class {member!r} cannot join both {new_names[member]!r} and {name!r}.")
    for name in groups:
        if name in knowledge.labels and name not in new_names:
            raise ParameterError(
                f"Class {name!r} exists and is not among the classes joined under this name. Add it to the list, or "
                f"choose another name."
            )
    renamed = [new_names.get(label, label) for label in knowledge.labels]
    kinds = {label_kind(label) for label in renamed}
    if len(kinds) > 1:
        raise ParameterError(
            f"New class names must be of the same kind as the others, not {listed(groups)} among "
            f"{listed(knowledge.labels)}."
        )
    origins = knowledge.provenance
    if new_names:
        origins = restricted(origins, lambda extent: extent._replace(joined=True))
    kind = next(iter(kinds), None)
    knowledge = replace(knowledge, signature=replace(knowledge.signature, labels=kind), provenance=origins)
    if not knowledge.per_class:
        return _join_pooled(knowledge, renamed)
    at = np.arange(len(renamed))[:, None]
    pieces = [replace(take_classes(knowledge, at[index]), labels=(name,)) for index, name in enumerate(renamed)]
    return added(pieces) if pieces else knowledge


def _join_pooled(knowledge: Piece, renamed: list[Label]) -> Piece:
    fixed: dict[Label, float] = {}
    for old, new in zip(knowledge.labels, renamed, strict=True):
        weight = dict(knowledge.signature.class_weights).get(old, 1.0)
        if fixed.setdefault(new, weight) != weight:
            raise FormError(
                f"Classes learned with different weights cannot be joined in the pooled form: {old!r} has weight "
                f"{weight}, others of {new!r} have {fixed[new]}. Learn with per_class=True to join classes later."
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


def as_list(items: Any) -> Iterable[Any]:
    """Return an iterable of items as it is, and a single item, such as a string, as a list."""
    return [items] if isinstance(items, str) or not isinstance(items, Iterable) else items


def _check_known(knowledge: Sums, wanted: set[Label]) -> None:
    unknown = [label for label in wanted if label not in knowledge.labels]
    if unknown:
        raise ParameterError(f"Unknown class {unknown[0]!r}. Known classes: {listed(knowledge.labels) or 'none'}.")


def _positions(knowledge: Sums, features: Sequence[Any]) -> NDArray[np.intp]:
    wanted = list(as_list(features))
    names, width = knowledge.signature.names, knowledge.width
    if wanted and all(isinstance(item, (bool, np.bool_)) for item in wanted):
        if len(wanted) != width:
            raise ParameterError(f"A mask needs one entry per feature: it has {len(wanted)} for {width} features.")
        wanted = np.flatnonzero(wanted).tolist()
    if not wanted:
        raise ParameterError("Select at least one feature.")
    at = []
    for item in wanted:
        if isinstance(item, str):
            if names is None or item not in names:
                known = "none, select by index" if names is None else listed(names)
                raise ParameterError(f"Unknown feature {item!r}. Known names: {known}.")
            at.append(names.index(item))
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool) and -width <= item < width:
            at.append(int(item) % width)
        else:
            raise ParameterError(f"Feature {item!r} is neither a name nor an index below {width}.")
    if len(set(at)) < len(at):
        raise ParameterError(f"Each feature can be selected only once, not as in {wanted!r}.")
    return np.array(at, dtype=np.intp)
