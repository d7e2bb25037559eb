"""Models whose scores are linear in the features."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads
from mergesvm.features.mapped import MappedRows
from mergesvm.files.header import MAX_NUMBER
from mergesvm.models.base import Model, check_scores
from mergesvm.models.domain import Domain
from mergesvm.models.formats.onnx import Steps, write_onnx
from mergesvm.models.solution import SOLVERS, Solution, read_only
from mergesvm.text import counted

BLOCK_BYTES = 2**21
"""Size of the blocks in which rows are scored."""

MIN_PRODUCTS_FOR_THREADS = 1e7
"""With fewer products, starting threads takes longer than it saves."""


class Hyperplanes(Model):
    """Separating hyperplanes of binary problems. Their arrays are read-only: a model is not edited but solved again.

    Attributes
    ----------
    classes_ : array of shape (classes,)
    coef_ : array of shape (problems, features)
    intercept_ : array of shape (problems,)
        Scores are ``X @ coef_.T + intercept_``.
    anchor_ : array of shape (features,)
    offsets_ : array of shape (problems,)
        Scores at the anchor. Scores are computed as ``(X - anchor_) @ coef_.T + offsets_``, which is exact however far
        the features are from the origin.
    feature_names_ : tuple of str or None
    solver_ : str
        "cholesky" or, if any problem needed it, "ridge" or "eigh"; "recursive", "pegasos".
    rounding_ : float or None
        Estimated error of the scores of rows like those learned, by the rounding of sums. Merged, subtracted and
        re-ordered pieces of the same rows agree to about this. None for models that were not solved from knowledge.
    """

    def __init__(self, domain: Domain, solution: Solution) -> None:
        super().__init__(domain)
        self._solution, self._anchor = solution, read_only(domain.anchor)
        # Without an intercept it is exactly 0, and not the rounding of this difference.
        fitted = domain.options.get("fit_intercept", True)
        self._intercept = read_only((solution.offsets - solution.coefs @ domain.anchor) * fitted)
        self.solver_ = next(name for name in SOLVERS if name in solution.solvers)
        self.rounding_ = None if solution.errors is None else float(solution.errors.max())

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients, (problems, features)."""
        return self._solution.coefs

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Scores at the origin, (problems,)."""
        return self._intercept

    @property
    def anchor_(self) -> NDArray[np.float64]:
        """The point near the learned rows from which differences are scored, (features,)."""
        return self._anchor

    @property
    def offsets_(self) -> NDArray[np.float64]:
        """Scores at the anchor, (problems,)."""
        return self._solution.offsets

    def to_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the model as an ONNX graph, which gives the same labels, scores and probabilities.

        Needs ``pip install 'mergesvm[onnx]'``. An existing file is an error if ``overwrite`` is False.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> model = ms.solve(ms.learn([[0.0], [1.0]], ["a", "b"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.to_onnx(pathlib.Path(folder, "model.onnx"))
        """
        write_onnx(path, self, self._onnx_steps(), overwrite=overwrite)

    @abstractmethod
    def _onnx_steps(self) -> Steps:
        """ONNX steps from hyperplane scores to scores, winner and probabilities."""

    def _fields(self) -> dict[str, Any]:
        """Header fields of the model's file: the estimated rounding error, if it is known."""
        return {"rounding": self.rounding_} if self.rounding_ is not None and self.rounding_ <= MAX_NUMBER else {}

    def _size(self) -> str:
        return f"{counted(len(self.classes_), 'class', 'classes')} x {counted(self.coef_.shape[1], 'feature')}"

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all binary problems, (rows, problems), computed block by block."""
        rows = self._check_rows(X)
        inputs, width = self.signature.inputs, self.coef_.shape[1]
        if self.signature.mapped:
            rows = MappedRows(rows, self.signature.features)
        scores = np.empty((rows.n_rows, len(self.coef_)))
        anchored = bool(self.anchor_.any())
        coefs = np.ascontiguousarray(self.coef_.T)

        def run(span: tuple[int, int]) -> None:
            block = rows.block(*span)
            out = scores[slice(*span)]
            with np.errstate(all="ignore"):
                if sparse.issparse(block):
                    out[:] = block @ coefs + self.intercept_
                else:
                    centred = block - self.anchor_ if anchored else block.astype(np.float64, copy=False)
                    np.matmul(centred, coefs, out=out)
                    out += self.offsets_

        blocks = list(spans(rows.n_rows, max(64, BLOCK_BYTES // (8 * max(width, inputs)))))
        products = rows.n_rows * width * (len(self.coef_) + (inputs if self.signature.mapped else 0))
        (Threads(1) if products < MIN_PRODUCTS_FOR_THREADS else Threads()).map(run, blocks)
        return check_scores(scores, rows)
