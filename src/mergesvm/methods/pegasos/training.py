"""Training of hinge-loss models by Pegasos: the state of each binary problem, and how training continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads, resolve_engine
from mergesvm.errors import DataError, ParameterError, SignatureError, warn_solver
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.pegasos.options import PegasosOptions
from mergesvm.methods.pegasos.score_moments import class_scores, side_scores
from mergesvm.methods.pegasos.sgd import Seeds, Side, Walk, take_steps
from mergesvm.methods.row_pool import RowPool
from mergesvm.models.domain import Domain
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.score_moments import ClassMoments, SideMoments, symmetric_moments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.class_weights import given_weights, side_weights

Key = tuple[Label, ...]
"""The classes of a problem: a pair, or one class against the rest. Two classes are a pair."""


@dataclass(frozen=True)
class Pegasos:
    """The state of training, and its model. Immutable: training on more rows returns a new one.

    Attributes
    ----------
    options : PegasosOptions
    signature : Signature
    rows, weights : dict of class to number
        Number of rows seen per class, and their total weight.
    walks : dict of classes to Walk
    seeds : Seeds
        Seeds of problems of classes not seen yet.
    model : LinearModel or PairwiseModel
    """

    options: PegasosOptions
    signature: Signature
    rows: dict[Label, int]
    weights: dict[Label, float]
    walks: dict[Key, Walk]
    seeds: Seeds
    model: LinearModel | PairwiseModel

    @property
    def steps(self) -> int:
        """Number of steps of the problem that made the most."""
        return max(walk.steps - walk.origin for walk in self.walks.values())


def train_pegasos(
    batch: Batch,
    features: FeatureMap,
    options: PegasosOptions,
    *,
    seed: int = 0,
    before: Pegasos | None = None,
    initial: Hyperplanes | None = None,
    engine: Engine | None = None,
    n_jobs: int | None = None,
) -> Pegasos:
    """Make ``n_iter`` steps in every problem with rows of the batch on both sides.

    The map must be frozen. Problems continue from the state ``before``, or start at the hyperplanes of ``initial``, a
    model of the same classes and features; those of new classes start at zero. Under MPI all ranks must have the same
    rows.

    Examples
    --------
    >>> from mergesvm.features.maps.identity import Identity
    >>> from mergesvm.models.schedule import Schedule
    >>> batch = Batch.of([[0.0], [1.0], [5.0], [6.0]], ["low", "low", "high", "high"])
    >>> learned = train_pegasos(batch, Identity(), PegasosOptions(Schedule(1e-3, 1000)))
    >>> learned.model.predict([[0.5], [5.5]]), learned.steps
    (array(['low', 'high'], dtype='<U4'), 1000)
    """
    options, (threads, spread) = options.check(), resolve_engine(engine, n_jobs)
    labels = batch.labels
    if not labels.classes:
        raise DataError("There is nothing to learn: all rows have weight zero.")
    columns = batch.rows.layout
    signature = Signature(features, columns.width, columns.names, columns.categories, labels=labels.kind)
    rows = dict(zip(labels.classes, labels.rows.tolist(), strict=True))
    if before is not None:
        _check_compatible(before.options, options)
        signature = before.signature.joined(signature)
        rows = _added(before.rows, rows)
    classes = tuple(sorted(rows))
    if isinstance(options.class_weight, Mapping):
        given_weights(options.class_weight, classes)  # raises an error if these are not weights of the classes
    if spread is not None:
        seed, initial = spread.ranks.on_root(lambda: (seed, initial))
    pool = RowPool.of(batch, features, threads)
    weights: dict[Label, float] = dict(zip(labels.classes, pool.class_weights().tolist(), strict=True))
    weights = weights if before is None else _added(before.weights, weights)
    real = np.dtype(options.precision) if options.precision else pool.real
    keys = _keys(classes, options.multiclass)
    seeds = Seeds(seed) if before is None else before.seeds
    walks, seeds = _walks(keys, Walk.begin(pool, options.schedule, real), seeds, before)
    problems = _problems(keys, labels.classes, pool, options)
    if initial is not None:
        _check_initial(initial, signature, classes, options)
        starts = dict(zip(keys, np.column_stack([initial.coef_, initial.intercept_]), strict=True))
        walks |= {key: walks[key].moved_to(starts[key], pool, problem) for key, problem in problems.items()}
    if not problems and len(classes) > 1:
        warn_solver(
            f"No steps were made: all rows are of class {labels.classes[0]!r}, and steps need rows of both sides of a "
            f"problem. Fit rows of more classes at a time."
        )
    begun = [walks[key] for key in problems]
    ended = take_steps(pool, list(problems.values()), begun, options.schedule, spread or threads)
    walks |= dict(zip(problems, ended, strict=True))
    model = _model(pool, labels.classes, (rows, weights), signature, walks, set(problems), options, before, threads)
    return Pegasos(options, signature, rows, weights, walks, seeds, model)


def _added(before: dict[Label, Any], now: dict[Label, Any]) -> dict[Label, Any]:
    return before | {label: before.get(label, 0) + count for label, count in now.items()}


def _keys(classes: tuple[Label, ...], multiclass: str) -> list[Key]:
    if len(classes) == 2 or (multiclass == "ovo" and len(classes) > 2):
        return list(combinations(classes, 2))
    return [(label,) for label in classes]


def _walks(keys: list[Key], start: Walk, seeds: Seeds, before: Pegasos | None) -> tuple[dict[Key, Walk], Seeds]:
    """The states of all problems, and the remaining seeds: known states, and new ones with the next seeds."""
    known = {} if before is None else before.walks
    # With two classes, their problem is also that of each of them against the rest.
    pair = next((key for key in known if len(key) == 2), None) if len(keys[0]) == 1 else None
    start = replace(start, bias=next((walk.bias for walk in known.values()), start.bias))
    walks = {}
    for key in keys:
        if key in known:
            walks[key] = known[key]
            continue
        walk = start
        if pair is not None and key[0] in pair:
            walk = known[pair] if key[0] == pair[1] else known[pair].reversed()
        walks[key], seeds = replace(walk, seed=seeds.first), seeds.rest()
    return walks, seeds


def _problems(keys: list[Key], present: tuple[Label, ...], pool: RowPool, options: PegasosOptions) -> dict[Key, Side]:
    """The problems that have rows on both sides."""
    found = {key: _problem(key, present, pool, options) for key in keys}
    return {key: problem for key, problem in found.items() if problem is not None}


def _problem(key: Key, present: tuple[Label, ...], pool: RowPool, options: PegasosOptions) -> Side | None:
    """The binary problem on these rows; None if they are all on one side."""
    if len(key) == 2:
        try:
            classes = tuple(present.index(label) for label in key)
        except ValueError:
            return None
        signs = np.zeros(len(present))
        signs[list(classes)] = -1.0, 1.0
    else:
        if key[0] not in present or len(present) < 2:
            return None
        classes = tuple(range(len(present)))
        signs = np.where(np.array(classes) == present.index(key[0]), 1.0, -1.0)
    if isinstance(options.class_weight, Mapping):
        return Side(signs * [float(options.class_weight.get(label, 1.0)) for label in present], classes)
    totals = pool.class_weights()
    positive, negative = side_weights(
        options.class_weight, float(totals[signs > 0].sum()), float(totals[signs < 0].sum())
    )
    return Side(np.where(signs > 0, positive, -negative) * np.abs(signs), classes)


def _check_initial(
    initial: Hyperplanes, signature: Signature, classes: tuple[Label, ...], options: PegasosOptions
) -> None:
    if initial.labels != classes:
        raise SignatureError(
            f"initial is a model of the classes {list(initial.labels)!r}, but y has {list(classes)!r}: "
            f"they must be the same."
        )
    if initial.signature.features != signature.features or initial.signature.inputs != signature.inputs:
        raise SignatureError(
            f"initial is a model of {initial.signature.inputs} columns with features {initial.signature.features}, but "
            f"X has {signature.inputs} with features {signature.features}. Use the features_ of initial."
        )
    named = zip(initial.signature.names or (), signature.names or (), strict=False)
    for place, (theirs, ours) in enumerate(named):
        if theirs != ours:
            raise SignatureError(
                f"initial is a model of other columns: column {place} is {theirs!r} there and {ours!r} in X. Reorder "
                f"the columns of X as in initial."
            )
    if len(classes) > 2 and isinstance(initial, PairwiseModel) != (options.multiclass == "ovo"):
        scheme = "one-vs-one" if isinstance(initial, PairwiseModel) else "one-vs-rest"
        raise SignatureError(f"initial is a {scheme} model. Solve it with multiclass={options.multiclass!r}.")
    if not options.schedule.fit_intercept and initial.intercept_.any():
        raise ParameterError("initial has intercepts, which fit_intercept=False does not allow.")


def _model(
    pool: RowPool,
    present: tuple[Label, ...],
    seen: tuple[dict[Label, int], dict[Label, float]],
    signature: Signature,
    walks: dict[Key, Walk],
    trained: set[Key],
    options: PegasosOptions,
    before: Pegasos | None,
    engine: Threads,
) -> LinearModel | PairwiseModel:
    rows, weights = seen
    classes = tuple(sorted(rows))
    counts = np.array([rows[label] for label in classes], dtype=np.int64)
    coefs = np.array([walk.coefficients for walk in walks.values()])
    bias = next(walk.bias for walk in walks.values())
    domain = Domain(classes, np.zeros(pool.width), signature, counts, (), options.written(bias, classes))
    solution = Solution(coefs[:, :-1].copy(), coefs[:, -1].copy(), ("pegasos",))
    at = [classes.index(label) for label in present]
    old = None if before is None else before.model
    if len(classes) > 2 and options.multiclass == "ovr":
        fresh = [index for index, key in enumerate(walks) if key in trained]
        known = _known_means(old, classes)
        means, covariance = class_scores(pool, coefs, at, fresh, known, engine)
        totals = np.array([weights[label] for label in classes])
        return LinearModel(domain, solution, ClassMoments(means, covariance, totals / totals.sum()))
    moments = side_scores(pool, coefs, [_sides(key, classes) for key in walks], at, engine)
    moments = _merge_moments(symmetric_moments(moments), list(walks), trained, old)
    if len(classes) > 2:
        return PairwiseModel(domain, solution, moments, options.ties)
    return LinearModel(domain, solution, moments)


def _sides(key: Key, classes: tuple[Label, ...]) -> tuple[int, int]:
    """The classes of the negative and the positive side; -1 for no negative class."""
    return (classes.index(key[0]), classes.index(key[1])) if len(key) == 2 else (-1, classes.index(key[0]))


def _merge_moments(found: SideMoments, keys: list[Key], trained: set[Key], old: Hyperplanes | None) -> SideMoments:
    """Moments of trained problems are new; the others keep their moments."""
    if not isinstance(old, (LinearModel, PairwiseModel)) or not isinstance(old.moments, SideMoments):
        return found
    places: dict[Key, int] = {key: place for place, key in enumerate(combinations(old.labels, 2))}
    now = [index for index, key in enumerate(keys) if key not in trained and key in places]
    then = [places[keys[index]] for index in now]
    for name, array in vars(found).items():
        array[now] = getattr(old.moments, name)[then]
    return found


def _known_means(old: Hyperplanes | None, classes: tuple[Label, ...]) -> NDArray[np.float64]:
    """Known mean scores of classes on hyperplanes, (classes, classes); NaN where unknown."""
    means = np.full((len(classes), len(classes)), np.nan)
    if isinstance(old, LinearModel) and isinstance(old.moments, ClassMoments):
        places = [classes.index(label) for label in old.labels]
        means[np.ix_(places, places)] = old.moments.means
    return means


def _check_compatible(before: PegasosOptions, now: PegasosOptions) -> None:
    for name, was, wanted in (
        ("multiclass", before.multiclass, now.multiclass),
        ("fit_intercept", before.schedule.fit_intercept, now.schedule.fit_intercept),
    ):
        if was != wanted:
            raise ParameterError(
                f"{name} was {was!r} when fitting began, and cannot become {wanted!r}. Call fit instead."
            )
