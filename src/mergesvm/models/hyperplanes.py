"""Hyperplanes that score rows: what all linear models have in common."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.knowledge import counted
from mergesvm.models.base import Domain, Model, check_scores
from mergesvm.models.solution import Solution

BLOCK_BYTES = 2**21
"""Rows are scored so many bytes at a time."""

SMALL = 1e7
"""With fewer products than this, threads take longer to start than to save."""


SOLVERS = ("eigh", "ridge", "cholesky", "recursive", "pegasos")
"""All solvers; of several that were used the first here is the one to be named."""


class Hyperplanes(Model):
    """Separating planes of one or more binary problems, and the classes they tell apart.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    coef_ : array of shape (problems, features)
    intercept_ : array of shape (problems,)
        Such that the scores are ``X @ coef_.T + intercept_``. They are computed about :attr:`anchor_` instead, where
        they keep their digits however far the features are from the origin.
    anchor_ : array of shape (features,)
    feature_names_ : tuple of str or None
    solver_ : str
        The solver used: "cholesky", or, if any of the problems needed it, "ridge" or "eigh"; "recursive", "pegasos".
    """

    def __init__(self, domain: Domain, solution: Solution) -> None:
        super().__init__(domain)
        self.anchor_ = domain.anchor
        self.coef_ = solution.coefs
        self.solver_ = next(name for name in SOLVERS if name in solution.solvers)
        self.intercept_ = solution.offsets - solution.coefs @ domain.anchor
        self._offsets = solution.offsets

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write the model for ONNX runtimes, which then give the same labels, scores and probabilities.

        Needs ``pip install 'mergesvm[onnx]'``.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_onnx(pathlib.Path(folder, "model.onnx"))
        """
        from mergesvm.models.formats.onnx import write_onnx
        from mergesvm.models.linear import LinearModel
        from mergesvm.models.pairwise import PairwiseModel

        assert isinstance(self, (LinearModel, PairwiseModel))
        write_onnx(self, path)

    def _size(self) -> str:
        return f"{counted(len(self.classes_), 'class', 'classes')} x {counted(self.coef_.shape[1], 'feature')}"

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all rows in all binary problems, (rows, problems), computed block by block."""
        rows = self._checked(X)
        inputs, width = self.signature.inputs, self.coef_.shape[1]
        if self.signature.mapped:
            rows = MappedRows(rows, self.signature.features)
        scores = np.empty((rows.n_rows, len(self.coef_)))
        anchored = bool(self.anchor_.any())
        planes = np.ascontiguousarray(self.coef_.T)

        def run(span: tuple[int, int]) -> None:
            block = rows.block(*span)
            out = scores[slice(*span)]
            with np.errstate(all="ignore"):
                if sparse.issparse(block):
                    out[:] = block @ planes + self.intercept_
                else:
                    near = block - self.anchor_ if anchored else block.astype(np.float64, copy=False)
                    np.matmul(near, planes, out=out)
                    out += self._offsets

        blocks = list(spans(rows.n_rows, max(64, BLOCK_BYTES // (8 * max(width, inputs)))))
        small = rows.n_rows * width * (len(self.coef_) + (inputs if self.signature.mapped else 0)) < SMALL
        (Threads(1) if small else Threads()).map(run, blocks)
        return check_scores(scores, rows)
