"""Cross-validation by scorers of scikit-learn, which need the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from mergesvm.analysis.cross_validation.grid import Grid
from mergesvm.analysis.cross_validation.validation import Validation, check_folds
from mergesvm.data.batch import Batch
from mergesvm.data.labels import label_array
from mergesvm.engines.threads import Threads
from mergesvm.estimators.classes import LabelType
from mergesvm.estimators.merge_svc import MergeSVC
from mergesvm.knowledge.folds import Folds

Scorer = Callable[..., float]


def validate_by_scorer(
    folds: Folds,
    grid: Grid,
    scoring: str | Scorer,
    X: Any,
    batch: Batch,
    numbers: NDArray[np.int64],
    kind: LabelType,
    engine: Threads,
) -> Validation:
    """Score every candidate of a grid on the rows of each fold by ``scorer(estimator, X, y)``.

    The estimator is a MergeSVC that was solved from the other folds. Scorers given by name also get the sample weights;
    rows of weight zero are left out. ``numbers`` are the folds of the rows, -1 for a row that is never held out.
    """
    check_folds(folds)
    name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
    scorer = get_scorer(scoring)
    weighted = isinstance(scoring, str) and batch.weights is not None
    kind = LabelType() if isinstance(scoring, str) else kind  # the metrics of scikit-learn refuse bytes
    truth = kind.restored(label_array(batch.labels.classes))
    X = X.tocsr() if sparse.issparse(X) else X if hasattr(X, "columns") else np.asarray(X)
    scores = np.full((len(grid), len(folds)), np.nan)
    for fold in range(len(folds)):
        train = folds.train(fold)
        held_out = np.flatnonzero((numbers == fold) & (batch.labels.codes >= 0))
        if not len(held_out) or not train.labels:
            continue
        rows, labels = _safe_indexing(X, held_out), truth[batch.labels.codes[held_out]]
        weights = {"sample_weight": batch.weights[held_out]} if weighted and batch.weights is not None else {}
        models = (model for solved in grid.solve(train, engine) for model in solved.models())
        for place, (options, model) in enumerate(zip(grid, models, strict=True)):
            estimator = MergeSVC(**options.as_dict()).solved(train, model, kind)
            scores[place, fold] = scorer(estimator, rows, labels, **weights)
    return Validation(grid, (name,), {name: scores}, True, folds)
