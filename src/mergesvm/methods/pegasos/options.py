"""Options of training with Pegasos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.models.schedule import Schedule
from mergesvm.multiclass.class_weights import known_weights
from mergesvm.multiclass.schemes import check_class_weight, check_multiclass, check_ties


@dataclass(frozen=True)
class PegasosOptions:
    """Options of training with Pegasos; see :class:`~mergesvm.PegasosSVC`.

    Attributes
    ----------
    schedule : Schedule
    multiclass : {"ovo", "ovr"}
    class_weight : {None, "inverse", "complement", "balanced"} or mapping of class to weight
    ties : {"recount", "sequential", "margin"}
    precision : {"float64", "float32"} or None
    """

    schedule: Schedule
    multiclass: str = "ovo"
    class_weight: Mapping[Any, float] | str | None = None
    ties: str = "recount"
    precision: str | None = None

    def check(self) -> PegasosOptions:
        """The same options with plain numbers, or an error that names the invalid one."""
        check_class_weight(self.class_weight)
        check_multiclass(self.multiclass)
        check_ties(self.ties)
        if self.precision not in (None, "float64", "float32"):
            raise ParameterError(f"precision must be 'float64', 'float32' or None, not {self.precision!r}.")
        return replace(self, schedule=self.schedule.check())

    def written(self, bias: float, classes: Iterable[Label]) -> dict[str, Any]:
        """As a model of these classes stores them, with the intercept scaling that was used."""
        weights = known_weights(self.class_weight, classes)
        schedule = replace(self.schedule, intercept_scaling=bias or None)
        return {**asdict(schedule), "class_weight": weights, "multiclass": self.multiclass}
