"""Knowledge: the class-wise sums over rows from which models are solved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, label_array
from mergesvm.data.layout import Layout
from mergesvm.errors import FormError, IndefiniteError, KnowledgeError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.components import Components
from mergesvm.features.ops.principal_axes import PrincipalAxes
from mergesvm.knowledge.algebra import merge, reanchor, subtract
from mergesvm.knowledge.anchor import as_anchor
from mergesvm.knowledge.format import load_knowledge, save_knowledge
from mergesvm.knowledge.select import join, only, select
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import ROUNDING, Sums
from mergesvm.text import counted


class Knowledge(Sums):
    """Sums over rows by class, which add and subtract, and from which every model is solved.

    For each class c, with rows x_i of weight s_i, and an anchor a::

        count  n_c = sum s_i      sum  v_c = sum s_i (x_i - a)      Gram  M_c = sum s_i (x_i - a)(x_i - a)'

    Because each is a sum over rows, the knowledge of two disjoint sets of rows adds up to that of their union, and the
    knowledge of a subset can be subtracted again, up to rounding::

        a + zero == a        a + b == b + a        (a + b) + c == a + (b + c)        (a + b) - b == a

    Knowledge is immutable. :class:`~mergesvm.knowledge.sums.Sums` describes its arrays, and
    :mod:`~mergesvm.knowledge.algebra` implements the operations.

    Examples
    --------
    >>> import mergesvm as ms
    >>> day1 = ms.learn([[0.0, 1.0], [1.0, 1.0]], ["cat", "dog"])
    >>> day2 = ms.learn([[0.5, 3.0]], ["fox"])
    >>> day1 + day2
    Knowledge of 3 rows x 2 features in 3 classes: cat 1, dog 1, fox 1
    >>> (day1 + day2) - day1
    Knowledge of 1 row x 2 features in 1 class: fox 1
    """

    @classmethod
    def zero(cls, signature: Signature, anchor: Any = None) -> Knowledge:
        """Return the knowledge of no rows: the zero of addition for this signature.

        >>> import mergesvm as ms
        >>> ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 2))
        Knowledge of 0 rows x 2 features in 0 classes
        """
        point = np.zeros(signature.width) if anchor is None else as_anchor(anchor, signature.width)
        empty = np.zeros((0, signature.width))
        return cls(signature, point, sums=empty, peaks=empty.copy())

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted, as an array."""
        return label_array(self.labels)

    @property
    def features(self) -> FeatureMap:
        """The feature map applied to the rows."""
        return self.signature.features

    @property
    def layout(self) -> Layout:
        """The columns of the rows."""
        return self.signature.layout

    @property
    def nbytes(self) -> int:
        """The memory of the sums in bytes."""
        return sum(array.nbytes for array in self.arrays())

    def __add__(self, other: object) -> Knowledge:
        return merge([self, other]) if isinstance(other, Knowledge) else NotImplemented

    def __radd__(self, other: object) -> Knowledge:
        # sum(pieces) starts with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Knowledge:
        return subtract(self, other) if isinstance(other, Knowledge) else NotImplemented

    def about(self, anchor: Any = None) -> Knowledge:
        """Return the same knowledge about another anchor, by default the mean of all rows.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [3.0]], ["a", "b"])
        >>> k.about().anchor, k.about([1.0]).sums.tolist()
        (array([2.]), [[0.0], [2.0]])
        """
        if anchor is None:
            total = self.counts.sum()
            anchor = self.anchor + self.sums.sum(axis=0) / total if total > 0 else self.anchor
        return reanchor(self, as_anchor(anchor, self.width))

    def select(self, features: Sequence[Any]) -> Knowledge:
        """Return the knowledge of some features, given as names, indices or a mask, in the given order.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], ["a", "b"], feature_names=["x", "y", "z"])
        >>> k.select(features=["z", "x"]).signature.names
        ('z', 'x')
        """
        return select(self, features)

    def only(self, classes: Iterable[Label]) -> Knowledge:
        """Return the knowledge of some classes.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "c"])
        >>> k.only(["a", "c"]).classes
        array(['a', 'c'], dtype='<U1')
        """
        return only(self, classes)

    def join(self, groups: Mapping[Label, Iterable[Label]]) -> Knowledge:
        """Return the knowledge with classes merged: a mapping of each new class to the classes that it replaces.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [2.0], [3.0]], ["c", "C", "d"])
        >>> k.join({"C": ["c", "C"]})
        Knowledge of 3 rows x 1 feature in 2 classes: C 2, d 1
        """
        return join(self, groups)

    def pca(self, n_components: float, *, whiten: bool = False, precision: str = "float64") -> Components:
        """Return the frozen map to the principal components of all rows, without reading the rows again.

        Equals scikit-learn's PCA of the rows of all classes, except for signs: here the largest entry of each direction
        is positive. Rows count by their weights; in the pooled form also by the class weights used in learning.

        Parameters
        ----------
        n_components : int or float
            The number of components; or, below 1, the fraction of the variance to explain.
        whiten : bool
            Divide each feature by its standard deviation (with n, not n - 1, in the denominator).
        precision : {"float64", "float32"}
            The precision of mapped rows. Directions are always computed in float64.

        Examples
        --------
        >>> import mergesvm as ms
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> day1, day2 = ms.learn(X[:900], y[:900]), ms.learn(X[900:], y[900:])
        >>> components = (day1 + day2).pca(0.9999)
        >>> components, bool(components.explained.sum() > 0.9999)
        (Components(54, precision='float64'), True)
        >>> ms.learn(X, y, features=components).width
        54
        """
        components = Components(n_components, whiten=whiten, precision=precision)
        if self.signature.mapped:
            raise FormError(
                f"Principal components need knowledge of unmapped rows, and this is of {self.features}. Use "
                f"learn(X, y).pca({n_components!r}), or apply them after the map, from a sample of rows: "
                f"Chain([map, Components({n_components!r})]).freeze(X)."
            )
        rows, count = int(self.rows.sum()), self.counts.sum()
        if rows == 0:
            raise KnowledgeError("Knowledge of no rows has no principal components. Learn some rows first.")
        mean = self.sums.sum(axis=0) / count
        covariance = self.pooled_gram / count
        # Rounding errors are relative to the largest squares, before anything was subtracted.
        squares = np.maximum(covariance.diagonal(), self.peaks.sum(axis=0) / count)
        rounding = ROUNDING[self.precision] * squares
        covariance -= np.outer(mean, mean)
        # Columns that vary only by rounding take no part in any component.
        constant = np.abs(covariance.diagonal()) <= rounding
        covariance[constant], covariance[:, constant] = 0.0, 0.0
        axes = PrincipalAxes.of_covariance(covariance, np.where(constant, 0.0, rounding))
        # All variances add up to the trace, negative ones included; the axes have zeros instead of these.
        negative = axes.variances.sum() - covariance.diagonal().sum()
        if self.peaks.any() and negative > np.sqrt(len(rounding)) * rounding.sum():
            raise IndefiniteError(
                "No set of rows has these sums: a variance is negative, probably after subtracting rows that were "
                "never added. Learn the remaining rows again."
            )
        arrays, centre = components.along(axes, rows), self.anchor + mean
        return components.frozen_with(arrays, centre, np.ones(len(mean)), self.layout, rows)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write to a file, atomically. The file contains no code, and a digest protects all of it.

        An existing file is an error if ``overwrite`` is False.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> k = ms.learn([[1.0], [2.0]], ["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     k.save(pathlib.Path(folder, "day.knowledge"))
        ...     ms.Knowledge.load(pathlib.Path(folder, "day.knowledge"))
        Knowledge of 2 rows x 1 feature in 2 classes: a 1, b 1
        """
        save_knowledge(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Knowledge:
        """Read from a file. The whole file is checked first."""
        return load_knowledge(path, cls)

    def __repr__(self) -> str:
        shown = [f"{label} {rows:,}" for label, rows in list(zip(self.labels, self.rows.tolist(), strict=True))[:10]]
        more = ["..."] if len(self.labels) > 10 else []
        size = f"{counted(int(self.rows.sum()), 'row')} x {counted(self.width, 'feature')}"
        form = "" if self.per_class else ", pooled"
        classes = ": " + ", ".join(shown + more) if shown else ""
        return f"Knowledge of {size} in {counted(len(self.labels), 'class', 'classes')}{form}{classes}"
