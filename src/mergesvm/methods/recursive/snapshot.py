"""The current model of a live model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mergesvm.data.labels import Label
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.proximal.error_estimate import warn_if_rounded
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.methods.recursive.rls import RecursiveLeastSquares
from mergesvm.methods.recursive.state_layout import Vector
from mergesvm.models.domain import Domain
from mergesvm.models.linear import LinearModel
from mergesvm.models.score_moments import class_moments, side_moments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.class_weights import known_weights
from mergesvm.multiclass.decomposition import one_vs_rest


def current_model(
    rls: RecursiveLeastSquares,
    signature: Signature,
    provenance: Provenance,
    classes: list[tuple[Label, int]],
    options: RecursiveOptions,
    knowledge: Knowledge | None,
    solution: Solution | None = None,
) -> LinearModel:
    """Build the model of the current coefficients, for the classes with rows and their codes, sorted by label.

    Probabilities need the ``knowledge`` of all rows. A ``solution`` of :func:`solve_sums` replaces the coefficients.
    """
    if not classes or not rls.total_weight > 0:
        raise KnowledgeError(
            "There is no model to predict with yet: no rows were learned, or all had zero weight. "
            "Learn rows with positive weight first."
        )
    labels, codes = tuple(label for label, _ in classes), [code for _, code in classes]
    coefs, offsets, mean = rls.coefficients()
    if not options.fit_intercept:  # exactly, and not up to rounding
        offsets, mean = np.zeros_like(offsets), np.zeros_like(mean)
    problems = codes if len(codes) > 2 else codes[-1:]  # two classes are one binary problem
    if solution is None:
        errors = None if rls.errors is None or len(rls.errors) < len(coefs) else rls.errors[problems]
        solution = Solution(coefs[problems], offsets[problems], ("recursive",) * len(problems), errors)
    kept = {
        "C": float(options.C),
        "class_weight": known_weights(options.class_weight, labels) or None,
        "multiclass": "ovr",
        "standardize": False,
        "penalize_intercept": options.penalize_intercept,
        "fit_intercept": options.fit_intercept,
    }
    domain = Domain(labels, mean, signature, rls.class_rows[codes], provenance, kept)
    if knowledge is None:
        return LinearModel(domain, solution, None)
    anchored = replace(solution, offsets=solution.offsets + solution.coefs @ (knowledge.anchor - mean))
    if len(knowledge.labels) > 2:
        return LinearModel(domain, solution, class_moments(knowledge, anchored))
    return LinearModel(domain, solution, side_moments(knowledge, one_vs_rest(knowledge), anchored))


def solve_sums(knowledge: Knowledge, options: RecursiveOptions, point: Vector) -> Solution:
    """Solve the sums of rows that are too few for the recursion; offsets are the scores at a point near the rows.

    In directions in which the rows do not vary, rounding hides the penalty of a large C. The closed form leaves them
    out where that is more accurate.
    """
    solver = SolveOptions(
        options.C,
        known_weights(options.class_weight, knowledge.labels) if knowledge.per_class else None,
        penalize_intercept=options.penalize_intercept,
        fit_intercept=options.fit_intercept,
    )
    solution = solver.solution(knowledge, solver.problems(knowledge))
    warn_if_rounded([solution], knowledge.precision)
    if not options.fit_intercept:  # current_model then takes the origin as the point
        return replace(solution, offsets=np.zeros_like(solution.offsets))
    return replace(solution, offsets=solution.offsets + solution.coefs @ (point - knowledge.anchor))
