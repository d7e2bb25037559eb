"""The methods of ``mergesvm train`` and their options: one table, from which help, checks and the estimator follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

import mergesvm as ms
from mergesvm.checks import check_choice
from mergesvm.cli.data_options import FEATURES_HELP
from mergesvm.errors import ParameterError
from mergesvm.multiclass.schemes import CLASS_WEIGHT_SCHEMES, MULTICLASS_SCHEMES, TIE_RULES

if TYPE_CHECKING:
    from mergesvm.engines.base import Engine


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes
    ----------
    title : str
        For help.
    estimator : str
        The class in :mod:`mergesvm` that trains.
    parameters : mapping of str to str
        The parameter of the estimator that each option sets; all other options are refused.
    """

    title: str
    estimator: str
    parameters: Mapping[str, str]


METHODS = {
    "pegasos": Method(
        "linear machines with the hinge loss, by Pegasos",
        "PegasosSVC",
        {
            "lambda_": "lambda_",
            "steps": "n_iter",
            "class_weight": "class_weight",
            "multiclass": "multiclass",
            "ties": "ties",
            "features": "features",
            "seed": "random_state",
        },
    ),
    "kernel": Method(
        "a kernel machine, on units",
        "ParallelKernelSVC",
        {
            "C": "C",
            "kernel": "kernel",
            "gamma": "gamma",
            "degree": "degree",
            "coef0": "coef0",
            "class_weight": "class_weight",
            "ties": "ties",
            "tol": "tol",
            "max_iter": "max_iter",
            "max_support_vectors": "max_support_vectors",
        },
    ),
}


def methods_help() -> str:
    """List the methods for help.

    >>> methods_help()
    'pegasos (linear machines with the hinge loss, by Pegasos) or kernel (a kernel machine, on units)'
    """
    *others, last = [f"{name} ({method.title})" for name, method in METHODS.items()]
    return f"{', '.join(others)} or {last}"


def _for(option: str, text: str) -> str:
    """The help of an option, with the methods that have it."""
    names = [name for name, method in METHODS.items() if option in method.parameters]
    return text if len(names) == len(METHODS) else f"With --method {' or '.join(names)}: {text}"


def flag(option: str) -> str:
    """The name of an option on the command line.

    >>> flag("max_support_vectors"), flag("lambda_")
    ('--max-support-vectors', '--lambda')
    """
    return f"--{option.strip('_').replace('_', '-')}"


@dataclass(frozen=True)
class TrainingOptions:
    """The method and its options; None for the default of the method."""

    PANEL: ClassVar[str] = "Model"

    method: Annotated[str, typer.Option(help=f"How to train: {methods_help()}.")]
    C: Annotated[
        float | None,
        typer.Option("--C", "-C", help=_for("C", "Weight of the errors against the penalty (default: 1).")),
    ] = None
    lambda_: Annotated[
        float | None,
        typer.Option("--lambda", help=_for("lambda_", "Weight of the penalty against the mean loss (default: 1e-4).")),
    ] = None
    steps: Annotated[
        int | None, typer.Option(help=_for("steps", "Number of steps per pair of classes (default: 100,000)."))
    ] = None
    kernel: Annotated[
        str | None, typer.Option(help=_for("kernel", "linear, poly, rbf, laplacian or sigmoid (default: rbf)."))
    ] = None
    gamma: Annotated[
        str | None, typer.Option(help=_for("gamma", "Coefficient of the kernel: a number, scale or auto."))
    ] = None
    degree: Annotated[int | None, typer.Option(help=_for("degree", "Degree of the kernel poly (default: 3)."))] = None
    coef0: Annotated[float | None, typer.Option(help=_for("coef0", "Constant of the kernels poly and sigmoid."))] = None
    class_weight: Annotated[
        str | None,
        typer.Option(help=f"none (default), {', '.join(CLASS_WEIGHT_SCHEMES)}, or class=weight,class=weight."),
    ] = None
    multiclass: Annotated[
        str | None, typer.Option(help=_for("multiclass", f"{' or '.join(MULTICLASS_SCHEMES)} (default: ovo)."))
    ] = None
    ties: Annotated[str | None, typer.Option(help=f"How tied votes are broken: {', '.join(TIE_RULES)}.")] = None
    features: Annotated[str | None, typer.Option(help=_for("features", FEATURES_HELP))] = None
    tol: Annotated[
        float | None, typer.Option(help=_for("tol", "Largest violation of the optimality conditions (default: 1e-3)."))
    ] = None
    max_iter: Annotated[int | None, typer.Option(help=_for("max_iter", "Largest number of iterations."))] = None
    max_support_vectors: Annotated[
        int | None,
        typer.Option(help=_for("max_support_vectors", "Reduce the machine to this number of vectors.")),
    ] = None
    seed: Annotated[int | None, typer.Option(help=_for("seed", "Seed of the random rows (default: 0)."))] = None

    def check(self) -> Method:
        """Return the method; raise an error if it is unknown, or does not have an option that is given."""
        check_choice("--method", self.method, METHODS)
        method = METHODS[self.method]
        for option in self._given():
            if option not in method.parameters:
                others = [name for name, other in METHODS.items() if option in other.parameters]
                raise ParameterError(
                    f"{flag(option)} is not an option of --method {self.method}, but of {' and '.join(others)}. Leave "
                    f"it out."
                )
        return method

    def _given(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "method"}
        return {option: value for option, value in values.items() if value is not None}

    def estimator(self, engine: Engine, jobs: int | None, **known: Any) -> Any:
        """The estimator of the method; ``known`` are options that are given as text, converted."""
        method = self.check()
        given = self._given() | known
        if "gamma" in given:
            given["gamma"] = _number_or_text(given["gamma"])
        parameters = {method.parameters[option]: value for option, value in given.items()}
        return getattr(ms, method.estimator)(**parameters, engine=engine, n_jobs=jobs)

    @contextmanager
    def naming_options(self) -> Iterator[None]:
        """Name the option instead of the parameter in errors raised in the block."""
        method = METHODS[self.method]
        try:
            yield
        except ParameterError as error:
            text = str(error)
            for option, parameter in method.parameters.items():
                text = text.replace(f"The {parameter!r} parameter of {method.estimator}", flag(option))
            raise ParameterError(text).with_traceback(error.__traceback__) from error.__cause__


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
