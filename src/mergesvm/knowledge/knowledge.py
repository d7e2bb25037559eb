"""Knowledge: what a support vector machine of the least-squares kind remembers of its rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, label_array
from mergesvm.data.readers.base import Layout
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.components import Components
from mergesvm.knowledge.algebra import merge, reanchor, subtract
from mergesvm.knowledge.anchor import as_point
from mergesvm.knowledge.format import load_knowledge, save_knowledge
from mergesvm.knowledge.pca import principal_components
from mergesvm.knowledge.select import join, only, select
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import Sums


class Knowledge(Sums):
    """Sums over rows, kept by class: they add, they subtract, and every model is solved from them alone.

    For each class c, with rows x_i of weight s_i, and an anchor a::

        count  n_c = sum s_i      sum  v_c = sum s_i (x_i - a)      Gram  M_c = sum s_i (x_i - a)(x_i - a)'

    Each is a sum over rows, so that knowledge of two disjoint sets of rows adds to the knowledge of both, and knowledge
    of a subset subtracts. Knowledge is immutable. Its arrays (anchor, rows, counts, sums, grams) are
    described in :class:`~mergesvm.knowledge.sums.Sums`.

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
        """Knowledge of no rows, which adds nothing to any other on the same terms.

        >>> import mergesvm as ms
        >>> ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 2))
        Knowledge of 0 rows x 2 features in 0 classes
        """
        point = np.zeros(signature.width) if anchor is None else as_point(anchor, signature.width)
        empty = np.zeros((0, signature.width))
        return cls(signature, point, sums=empty, peaks=empty.copy())

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted, as an array."""
        return label_array(self.labels)

    @property
    def features(self) -> FeatureMap:
        """The map by which rows became features."""
        return self.signature.features

    @property
    def layout(self) -> Layout:
        """The columns of the rows."""
        return self.signature.layout

    @property
    def nbytes(self) -> int:
        """The memory that the sums take."""
        return sum(array.nbytes for array in self.arrays())

    def __add__(self, other: object) -> Knowledge:
        return merge([self, other]) if isinstance(other, Knowledge) else NotImplemented

    def __radd__(self, other: object) -> Knowledge:
        # So that sum(pieces), which begins with 0, works as one expects.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Knowledge:
        return subtract(self, other) if isinstance(other, Knowledge) else NotImplemented

    def about(self, anchor: Any = None) -> Knowledge:
        """The same knowledge about another anchor, by default about the mean of all rows.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [3.0]], ["a", "b"])
        >>> k.about().anchor, k.about([1.0]).sums.tolist()
        (array([2.]), [[0.0], [2.0]])
        """
        if anchor is None:
            total = self.counts.sum()
            anchor = self.anchor + self.sums.sum(axis=0) / total if total > 0 else self.anchor
        return reanchor(self, as_point(anchor, self.width))

    def select(self, features: Sequence[Any]) -> Knowledge:
        """Knowledge of some features only: names, positions, or a mask; in the order given.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], ["a", "b"], feature_names=["x", "y", "z"])
        >>> k.select(features=["z", "x"]).signature.names
        ('z', 'x')
        """
        return select(self, features)

    def only(self, classes: Iterable[Label]) -> Knowledge:
        """Knowledge of some classes only.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "c"])
        >>> k.only(["a", "c"]).classes
        array(['a', 'c'], dtype='<U1')
        """
        return only(self, classes)

    def join(self, groups: Mapping[Label, Iterable[Label]]) -> Knowledge:
        """Knowledge in which several classes have become one: the new name, and the classes it takes in.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [2.0], [3.0]], ["c", "C", "d"])
        >>> k.join({"C": ["c", "C"]})
        Knowledge of 3 rows x 1 feature in 2 classes: C 2, d 1
        """
        return join(self, groups)

    def pca(self, n_components: float, *, whiten: bool = False, precision: str = "float64") -> Components:
        """The frozen map to the principal components of all rows, with no second look at them.

        It is scikit-learn's PCA of the rows of all classes together, but for the signs: here the largest entry of each
        direction is positive. Rows count by their weight; in the pooled form by the class weights fixed there, too.

        Parameters
        ----------
        n_components : int or float
            How many; or, below 1, a share of the variance, of which as many as are needed explain more.
        whiten : bool
            Divide each feature by its standard deviation, that of n, and not of n - 1, rows.
        precision : {"float64", "float32"}
            In which rows are mapped. Directions are found in float64 always.

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
        return principal_components(self, n_components, whiten=whiten, precision=precision)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file that holds no code and can be trusted: whole or not at all, with a digest of everything.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> k = ms.learn([[1.0], [2.0]], ["a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     k.save(pathlib.Path(folder, "day.knowledge"))
        ...     ms.Knowledge.load(pathlib.Path(folder, "day.knowledge"))
        Knowledge of 2 rows x 1 feature in 2 classes: a 1, b 1
        """
        save_knowledge(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Knowledge:
        """Read from a file; everything is checked before anything is used."""
        return load_knowledge(path, cls)

    def __repr__(self) -> str:
        shown = [f"{label} {rows:,}" for label, rows in list(zip(self.labels, self.rows.tolist(), strict=True))[:10]]
        more = ["..."] if len(self.labels) > 10 else []
        size = f"{counted(int(self.rows.sum()), 'row')} x {counted(self.width, 'feature')}"
        form = "" if self.per_class else ", pooled"
        classes = ": " + ", ".join(shown + more) if shown else ""
        return f"Knowledge of {size} in {counted(len(self.labels), 'class', 'classes')}{form}{classes}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun.

    >>> counted(1, "row"), counted(1000, "row"), counted(2, "class", "classes")
    ('1 row', '1,000 rows', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
