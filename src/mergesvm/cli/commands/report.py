"""The command that reports what knowledge tells, with no data."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from mergesvm.cli.choose import ChoiceOptions
from mergesvm.cli.console import Console, check_output, printable
from mergesvm.cli.options import AsJson, Debug, Force, Output, Quiet
from mergesvm.errors import ParameterError
from mergesvm.files.atomic import write_atomically
from mergesvm.knowledge.knowledge import counted
from mergesvm.multiclass.class_weights import CLASS_WEIGHT_SCHEMES
from mergesvm.report.answers import Answers, answer
from mergesvm.report.as_json import answers_facts
from mergesvm.report.cards.drift import drift_order
from mergesvm.report.cards.path import weights_name
from mergesvm.report.knowledge_page import answers_page
from mergesvm.report.subject import open_subject

MOST_NAMED = 5
"""So many pieces are named on the screen."""


@dataclass(frozen=True)
class Done:
    """How much of the work is done, as a scan tells it."""

    share: float
    rows: int = 0


def report_command(
    knowledge: Annotated[
        list[str],
        typer.Argument(
            help="Files of knowledge, with or without folds, folders of them, or globs in quotes. Several are pieces "
            "to be compared.",
            metavar="KNOWLEDGE...",
        ),
    ],
    output: Output,
    C: Annotated[
        str,
        typer.Option("--C", "-C", help="A number; auto chooses by held-out loss, if folds or pieces can be held out."),
    ] = "auto",
    class_weight: Annotated[
        str,
        typer.Option(
            help=f"none, {', '.join(CLASS_WEIGHT_SCHEMES)}, or class=weight,...; auto chooses none or balanced."
        ),
    ] = "none",
    multiclass: Annotated[str, typer.Option(help="ovr (one-vs-rest) or ovo (one-vs-one).")] = "ovr",
    standardize: Annotated[bool, typer.Option("--standardize", help="Bring all features to unit variance.")] = False,
    free_intercept: Annotated[
        bool, typer.Option("--free-intercept", help="Do not penalise the intercept, as scikit-learn does not.")
    ] = False,
    level: Annotated[float, typer.Option(help="At which a difference between pieces is called significant.")] = 0.01,
    force: Force = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Write a page that tells from the sums alone: the best C, what to expect, which features and pieces matter."""
    talk = Console(quiet, as_json)
    check_output(output, force, ".html", ".htm")
    if not 0 < level < 1:
        raise ParameterError(f"--level has to be between 0 and 1, not {level:g}.")
    wishes = ChoiceOptions(C, None, class_weight, multiclass, None)
    fixed = {"standardize": standardize, "penalize_intercept": not free_intercept}
    with talk.progress("reporting") as progress:
        subject = open_subject(knowledge)
        answers = answer(subject, wishes, fixed, level, lambda share: progress(Done(share)))
    page = answers_page(
        answers, f"{_title(knowledge, list(subject.pieces))}: answers without data", ", ".join(knowledge)
    )
    write_atomically(output, page.encode())
    _print(talk, answers)
    talk.out.print(printable(f"written to {output}"), markup=False)
    talk.result(output=output, **answers_facts(answers))


def _title(given: list[str], names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    first = Path(given[0])
    folder = (first if first.is_dir() else first.parent).resolve().name
    return f"{len(names)} pieces of {folder}"


def _print(talk: Console, answers: Answers) -> None:
    lines = [repr(answers.subject.total), *(f"Warning: {remark}" for remark in answers.remarks)]
    estimates, terms = answers.estimates, answers.terms
    if estimates is not None:
        where = f"held out: {answers.held_out}" if answers.held_out else "on the rows learned from: too good"
        means = estimates.means
        lines.append(f"C={terms.C:g} ({answers.how}), class weights {weights_name(terms.class_weight)}")
        names = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "log_loss": "log-loss", "auc": "AUC"}
        guessed = [f"{said} {means[name]:.4f}" for name, said in names.items() if isfinite(means[name])]
        told = f"; {', '.join(guessed)}, estimated" if guessed else ""
        lines.append(f"squared loss {means['loss']:.4f}, exact{told} ({where})")
    if not isinstance(answers.influence, str):
        worst = [row["piece"] for row in answers.influence.table()[:MOST_NAMED]]
        lines.append(f"most suspicious pieces: {', '.join(worst)}")
    if not isinstance(answers.drift, str):
        drifted = [answers.drift.names[at] for at in drift_order(answers.drift) if answers.drift.drifted[at]]
        more = ", ..." if len(drifted) > MOST_NAMED else ""
        named = f": {', '.join(drifted[:MOST_NAMED])}{more}" if drifted else ""
        lines.append(f"{counted(len(drifted), 'piece')} of {len(answers.drift.names)} drifted{named}")
    talk.out.print(printable("\n".join(lines)), markup=False)
