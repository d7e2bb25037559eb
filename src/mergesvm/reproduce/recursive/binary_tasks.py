"""The five data sets of two classes, split and standardised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.reproduce.paper_data import ADULT, DATA, PaperData, Source


@dataclass(frozen=True)
class Split:
    """Training and test rows as they are read, with labels -1 and 1, and the scaling that standardises them.

    The scaling is that of the training rows; constant columns are only centred.
    """

    title: str
    X: NDArray[Any]
    y: NDArray[np.float64]
    test: NDArray[Any]
    truth: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def standardised(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Rows with the mean of the training rows taken away, divided by their deviation."""
        scaled: NDArray[np.float64] = (rows - self.mean) / self.scale
        return scaled

    def accuracy(self, coefs: NDArray[np.float64], intercept: float, test: NDArray[np.float64]) -> float:
        """Accuracy on the standardised test rows in per cent; as in the paper, sgn(0) = 1."""
        return 100 * float(np.mean(np.where(test @ coefs + intercept >= 0, 1, -1) == self.truth))


@dataclass(frozen=True)
class BinaryTask:
    """A data set, and the labels that make up its positive class."""

    data: PaperData
    positive: tuple[int, ...]
    question: str
    positive_in_stand_in: tuple[int, ...]
    question_of_stand_in: str

    def load(self, source: Source, seed: int) -> Split:
        """Read and split the rows."""
        positive = self.positive_in_stand_in if source.bundled else self.positive
        question = self.question_of_stand_in if source.bundled else self.question
        X, y, test, truth = self.data.load(source, seed)
        scale = X.std(axis=0, dtype=np.float64)
        scale[scale == 0] = 1.0
        labels, answers = (np.where(np.isin(each, positive), 1.0, -1.0) for each in (y, truth))
        title = f"{self.data.stand_in if source.bundled else self.data.title}, {question}"
        return Split(title, X, labels, test, answers, X.mean(axis=0, dtype=np.float64), scale)


EVEN = (0, 2, 4, 6, 8)

TASKS = (
    BinaryTask(
        PaperData("spambase", "spambase/*", "f57", "spambase", 0.7, format="csv", header=False, stand_in="wine"),
        (1,),
        "spam",
        (1,),
        "class 1",
    ),
    BinaryTask(
        PaperData("letter", "letter/*", "f0", "letter", 0.75, format="csv", header=False, stand_in="iris"),
        tuple(range(13)),
        "A to M",
        (1,),
        "versicolor",
    ),
    BinaryTask(replace(ADULT, title="a9a", train_fraction=2 / 3), (1,), "income", (1,), "benign"),
    BinaryTask(replace(DATA["mnist"], train_fraction=6 / 7), EVEN, "even", EVEN, "even"),
    BinaryTask(PaperData("covtype", "covtype/*", "y", "covertype", 0.8), (2,), "class 2", (0, 1, 2, 3, 4), "0 to 4"),
)
"""Five public data sets from 57 columns and 3 thousand rows to 784 columns, and to 465 thousand rows."""
