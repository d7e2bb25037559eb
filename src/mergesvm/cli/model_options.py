"""Options of the model to solve for; "auto" means that the option is chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from mergesvm.analysis.cross_validation.score_names import LOSSES, SCORINGS
from mergesvm.cli.parsing import as_class_weight, as_number, as_numbers
from mergesvm.errors import ParameterError
from mergesvm.multiclass.schemes import CLASS_WEIGHT_SCHEMES, MULTICLASS_SCHEMES, TIE_RULES

if TYPE_CHECKING:
    from mergesvm.data.labels import Label

AUTO = "auto"

ESTIMATED = ", ".join(name for name in SCORINGS if name not in LOSSES)


@dataclass(frozen=True)
class ModelOptions:
    """Options of the solver, as text."""

    PANEL: ClassVar[str] = "Model"

    C: Annotated[
        str,
        typer.Option(
            "--C", "-C", help="Weight of the errors against the penalty on coefficients; auto chooses by held-out loss."
        ),
    ] = "1.0"
    class_weight: Annotated[
        str,
        typer.Option(
            help=f"none, {', '.join(CLASS_WEIGHT_SCHEMES)}, or class=weight,class=weight; "
            "auto chooses none or balanced."
        ),
    ] = "none"
    multiclass: Annotated[str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one).")] = "ovr"
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale all features to unit variance.")] = False
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, like scikit-learn.")
    ] = False
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Solve without an intercept: it is 0.")] = False

    def number_or_auto(self) -> float | str:
        """C as a number, or "auto"."""
        return AUTO if self.C == AUTO else as_number(self.C, "--C")

    def weights(self, labels: tuple[Label, ...]) -> Any:
        """Class weights of these classes: a scheme, a mapping, None, or "auto"."""
        return as_class_weight(self.class_weight, labels)

    @property
    def fixed(self) -> dict[str, Any]:
        """The options that are never chosen, as solve() takes them."""
        if self.free_intercept and self.no_intercept:
            raise ParameterError("--no-intercept leaves no intercept for --free-intercept. Omit one of them.")
        return {
            "standardize": self.standardize,
            "penalize_intercept": not self.free_intercept,
            "fit_intercept": not self.no_intercept,
        }


@dataclass(frozen=True)
class ChoiceOptions(ModelOptions):
    """Options of the solver, and how to choose those that are "auto"."""

    multiclass: Annotated[
        str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one); auto chooses by accuracy.")
    ] = "ovr"
    ties: Annotated[
        str, typer.Option(help=f"How tied votes are broken, with --multiclass ovo: {', '.join(TIE_RULES)}.")
    ] = "recount"
    Cs: Annotated[
        str | None,
        typer.Option("--Cs", help="Values to try for --C auto, such as 0.01,1,100 (default: 25 from 1e-6 to 1e6)."),
    ] = None
    scoring: Annotated[
        str | None,
        typer.Option(
            help=f"Score that auto maximises: {' or '.join(LOSSES)}, computed exactly from knowledge; or {ESTIMATED}, "
            "estimated from knowledge, or measured with --data (default: the loss; accuracy with --data or "
            "--multiclass auto; with class weights the balanced form of either)."
        ),
    ] = None

    @property
    def auto(self) -> bool:
        """Whether any option is "auto", that is, to be chosen by cross-validation."""
        return AUTO in (self.C, self.class_weight, self.multiclass)

    @property
    def fixed(self) -> dict[str, Any]:
        """The options that are never chosen, as solve() takes them."""
        return {**super().fixed, "ties": self.ties}

    def grid(self, labels: tuple[Label, ...]) -> dict[str, Any]:
        """The candidates, as keyword arguments of :func:`~mergesvm.analysis.cross_validation.validation.validate`."""
        if self.Cs is not None and self.C != AUTO:
            raise ParameterError(f"--Cs lists values for --C auto, but --C is {self.C}. Omit one of them.")
        weights = self.weights(labels)
        C, Cs = self.number_or_auto(), None if self.Cs is None else as_numbers(self.Cs, "--Cs")
        return {
            "Cs": Cs if C == AUTO else [C],
            "class_weights": [None, "balanced"] if weights == AUTO else [weights],
            # With two classes both schemes are the same binary problem.
            "multiclass": [*MULTICLASS_SCHEMES][: max(1, len(labels) - 1)]
            if self.multiclass == AUTO
            else self.multiclass,
        }

    def score_name(self, schemes: Any, measured: bool) -> str:
        """The score to choose by: the exact loss, unless it cannot compare the candidates.

        Class weights need a balanced score, because by the others no weighting would always be chosen.
        """
        compared = isinstance(schemes, list) and len(schemes) > 1
        if self.scoring is not None:
            if compared and self.scoring in LOSSES:
                raise ParameterError(
                    f"{self.scoring} cannot compare one-vs-rest with one-vs-one, whose binary problems have different "
                    f"rows. Use --scoring accuracy, or omit --multiclass auto."
                )
            if measured and self.scoring in LOSSES:
                raise ParameterError(f"{self.scoring} is computed exactly without data. Omit --data.")
            return self.scoring
        weighted = self.class_weight != "none"
        if compared or measured:
            return "balanced_accuracy" if weighted else "accuracy"
        return "neg_balanced_loss" if weighted else "neg_squared_loss"
