"""The signature of knowledge: what two pieces must have in common to be added."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mergesvm.checks import check_flag, listed
from mergesvm.data.labels import Label
from mergesvm.data.layout import Categories, Layout
from mergesvm.errors import SignatureError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity

ClassWeights = tuple[tuple[Label, float], ...]


@dataclass(frozen=True)
class Signature:
    """The columns, feature map and form of the sums.

    Attributes
    ----------
    features : FeatureMap
        The map applied to rows before they are summed; the identity for a linear model.
    inputs : int
        Number of columns of the rows.
    names : tuple of str or None
        Names of the columns.
    categories : tuple of (column, values)
        The categorical columns of tables; each has one feature ``column=value`` per value.
    per_class : bool
        Whether every class has its own Gram matrix, or all share one pooled matrix.
    class_weights : tuple of (label, weight)
        Weights applied while learning, in the pooled form only.
    labels : str or None
        The kind of the labels, such as "text"; None before any row was learned.
    """

    features: FeatureMap
    inputs: int
    names: tuple[str, ...] | None = None
    categories: Categories = ()
    per_class: bool = True
    class_weights: ClassWeights = ()
    labels: str | None = None

    def __post_init__(self) -> None:
        check_flag("per_class", self.per_class)

    @property
    def mapped(self) -> bool:
        """Whether rows are mapped before they are summed."""
        return not isinstance(self.features, Identity)

    @property
    def width(self) -> int:
        """The number of features; that of the columns unless they are mapped."""
        return self.features.width if self.mapped else self.inputs

    @property
    def layout(self) -> Layout:
        """The columns of the rows."""
        return Layout(self.inputs, self.names, self.categories)

    def joined(self, other: Signature, verb: str = "add", preposition: str = "to") -> Signature:
        """Return the signature of the sum of two pieces, or raise an error that names the difference.

        >>> Signature(Identity(), 2).joined(Signature(Identity(), 3))
        Traceback (most recent call last):
        ...
        mergesvm.errors.SignatureError: Cannot add knowledge of 3 features to knowledge of 2 features. ...
        """
        if self.features != other.features:
            raise different_maps_error(str(other.features), str(self.features), verb, preposition)
        mine, theirs = self._described(), other._described()
        equal = {
            "width": self.inputs == other.inputs,
            "names": (self.names, self.categories) == (other.names, other.categories),
            "form": (self.per_class, self.class_weights) == (other.per_class, other.class_weights),
            "labels": self.labels == other.labels or None in (self.labels, other.labels),
        }
        different = next((key for key, same in equal.items() if not same), None)
        if different is not None:
            hint = "Learn both pieces with the same options."
            if different == "names":
                pairs = list(enumerate(zip(self.names or (), other.names or (), strict=False)))
                hint = next((f"Feature {i} is {b!r} here, {a!r} there. " for i, (a, b) in pairs if a != b), "")
                hint += "Learn both with the same names in the same order; feature_names= gives names to an array."
            raise SignatureError(
                f"Cannot {verb} knowledge of {theirs[different]} {preposition} knowledge of {mine[different]}. {hint}"
            )
        return replace(self, labels=self.labels or other.labels)

    def _described(self) -> dict[str, str]:
        more = f" and {len(self.names) - 12} more" if self.names is not None and len(self.names) > 12 else ""
        names = "features without names" if self.names is None else f"features named {listed(self.names[:12])}{more}"
        form = "the class-wise form" if self.per_class else "the pooled form"
        weights = ", ".join(f"{label!r}: {weight}" for label, weight in self.class_weights)
        return {
            "width": f"{self.inputs} features",
            "names": names,
            "form": form + (f" with class weights {{{weights}}}" if weights else ""),
            "labels": f"{self.labels} labels",
        }


def different_maps_error(new: str, known: str, verb: str = "add", preposition: str = "to") -> SignatureError:
    """Return the error for pieces with different feature maps."""
    return SignatureError(
        f"Cannot {verb} knowledge of features {new} {preposition} knowledge of features {known}. Freeze one map, save "
        f"it, and learn all pieces with it: map.save, features.load."
    )
