"""What learning with many workers costs: the model, and what was measured of it.

With N rows at p workers, which tell each other of their knowledge in A bytes, and then send its sums, B bytes, up a
tree of d = ceil(log2 p) levels,

    T(N, p) = N row / p + (p - 1) (A / bandwidth + agree) + B pack + d (3 latency + B / bandwidth + B add)

The latency counts three times: all say that their rows are in order, and what they know of, before the sums travel.
"""

from __future__ import annotations

from dataclasses import dataclass

from mergesvm.knowledge.gram.triangles import triangle_size


def sum_bytes(width: int, n_classes: int, per_class: bool = True) -> int:
    """Bytes of the sums of one piece of knowledge as they travel: sums and peaks, and one triangle a matrix.

    >>> sum_bytes(123, 2)
    125952
    """
    n_grams = n_classes if per_class else 1
    return 8 * ((n_classes + n_grams) * width + n_grams * triangle_size(width))


def tree_depth(workers: int) -> int:
    """Levels of the tree.

    >>> [tree_depth(workers) for workers in (1, 2, 3, 8, 1024)]
    [0, 1, 2, 3, 10]
    """
    return (workers - 1).bit_length()


@dataclass(frozen=True)
class Link:
    """How fast a message goes from one worker to another.

    Attributes
    ----------
    latency : float
        Seconds of the smallest message.
    bandwidth : float
        Bytes a second of large ones.
    """

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Handling:
    """What a worker spends on knowledge.

    Attributes
    ----------
    packing, adding : float
        Seconds a byte: to pack its sums, and to add another's to them.
    agreeing : float
        Seconds for each description that is read and agreed with.
    """

    packing: float
    adding: float
    agreeing: float


@dataclass(frozen=True)
class Load:
    """What a worker sends.

    Attributes
    ----------
    described : float
        Bytes that tell all others that its rows are in order, and what its knowledge is of.
    size : int
        Bytes of the sums, which go up the tree.
    """

    described: float
    size: int


def joining_seconds(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """Seconds that the knowledge of all workers takes to become one, up the tree.

    >>> round(joining_seconds(Load(0, 10**6), 1024, Link(1e-5, 1e9), Handling(0.0, 1e-10, 0.0)), 6)
    0.0113
    """
    level = link.latency + load.size * (1 / link.bandwidth + handling.adding)
    return _agreement(load, workers, link, handling) + tree_depth(workers) * level


def scattered_seconds(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """The same if each worker added one slice of everyone's numbers, and the slices were gathered afterwards.

    That is a reduce-scatter by halves, and a gather: twice the levels, but all numbers travel only twice.

    >>> scattered_seconds(Load(0, 10**6), 1024, Link(1e-5, 1e9), Handling(0.0, 1e-10, 0.0)) < 0.0025
    True
    """
    share = load.size * (workers - 1) / workers
    levels = 2 * tree_depth(workers) * link.latency + share * (2 / link.bandwidth + handling.adding)
    return _agreement(load, workers, link, handling) + levels


def _agreement(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """Seconds until all know of each other, with those of packing."""
    if workers == 1:
        return 0.0
    each = load.described / link.bandwidth + handling.agreeing
    return 2 * tree_depth(workers) * link.latency + (workers - 1) * each + load.size * handling.packing


@dataclass(frozen=True)
class Measured:
    """What some ranks have measured together; see :mod:`mergesvm.reproduce.cascade_ranks`.

    Attributes
    ----------
    ranks, rows, width, n_classes : int
    walls : list of float
        Seconds of learning and solving with the engine, of each repetition.
    learning : list of float
        The largest CPU seconds that any rank took to learn its own rows, of each repetition.
    solving : float
        CPU seconds of solving, at the root.
    handling : Handling
    link : Link or None
        Between two ranks; None if there is but one.
    described : int
        Bytes by which all ranks together tell of their rows and their knowledge, on which they agree first.
    sent, messages, rounds : int
        What the engine counted.
    coefficients : list of float
        Of the model at the root, the intercept last.
    """

    ranks: int
    rows: int
    width: int
    n_classes: int
    walls: list[float]
    learning: list[float]
    solving: float
    handling: Handling
    link: Link | None
    described: int
    sent: int
    messages: int
    rounds: int
    coefficients: list[float]

    @classmethod
    def of(cls, found: dict[str, object]) -> Measured:
        """As the ranks say it in JSON."""
        link, handling = found.pop("link"), found.pop("handling")
        assert isinstance(handling, dict)
        known = Link(**link) if isinstance(link, dict) else None
        return cls(**found, link=known, handling=Handling(**handling))  # type: ignore[arg-type]

    @property
    def size(self) -> int:
        """Bytes of the sums of one rank."""
        return sum_bytes(self.width, self.n_classes)

    @property
    def expected(self) -> int:
        """Bytes that all ranks together should have sent: descriptions to all others, sums once up the tree."""
        return (self.ranks - 1) * (self.described + self.size)

    @property
    def wall(self) -> float:
        """Seconds of the best repetition."""
        return min(self.walls)

    @property
    def joining(self) -> float:
        """Seconds of the tree, reckoned from what this run measured between two ranks."""
        if self.link is None:
            return 0.0
        return joining_seconds(Load(self.described / self.ranks, self.size), self.ranks, self.link, self.handling)

    @property
    def reckoned(self) -> float:
        """Seconds on a machine with a core for each rank: CPU time, and the tree."""
        return min(self.learning) + self.joining + self.solving
