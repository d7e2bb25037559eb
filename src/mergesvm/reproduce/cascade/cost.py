"""Cost model of parallel learning, and the measurements it is compared with.

N rows are learned by p workers. Each describes its knowledge to all others in A bytes; then the sums, B bytes, are
added up a tree of d = ceil(log2 p) levels::

    T(N, p) = N row / p + (p - 1) (A / bandwidth + agree) + B pack + d (3 latency + B / bandwidth + B add)

The latency counts three times: before the sums are sent, workers confirm that their rows are valid, and exchange
descriptions of their knowledge.
"""

from __future__ import annotations

from dataclasses import dataclass

from mergesvm.knowledge.gram.triangles import triangle_size


def sum_bytes(width: int, n_classes: int, per_class: bool = True) -> int:
    """Bytes sent for the sums of one piece of knowledge: sums and peaks, and one triangle per matrix.

    >>> sum_bytes(123, 2)
    125952
    """
    n_grams = n_classes if per_class else 1
    return 8 * ((n_classes + n_grams) * width + n_grams * triangle_size(width))


def tree_depth(workers: int) -> int:
    """Number of levels of the tree.

    >>> [tree_depth(workers) for workers in (1, 2, 3, 8, 1024)]
    [0, 1, 2, 3, 10]
    """
    return (workers - 1).bit_length()


@dataclass(frozen=True)
class Link:
    """Speed of messages between two workers."""

    latency: float  # seconds for the smallest message
    bandwidth: float  # bytes per second for large messages


@dataclass(frozen=True)
class Handling:
    """Time that a worker spends on sums."""

    packing: float  # seconds per byte of its own sums
    adding: float  # seconds per byte of the sums of another worker
    agreeing: float  # seconds per description that is read and compared


@dataclass(frozen=True)
class Load:
    """Bytes that a worker sends."""

    described: float  # to all others: that its rows are valid, and a description of its knowledge
    size: int  # up the tree: the sums


def joining_seconds(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """Seconds for adding the knowledge of all workers up a tree.

    >>> round(joining_seconds(Load(0, 10**6), 1024, Link(1e-5, 1e9), Handling(0.0, 1e-10, 0.0)), 6)
    0.0113
    """
    level = link.latency + load.size * (1 / link.bandwidth + handling.adding)
    return _agreement(load, workers, link, handling) + tree_depth(workers) * level


def scattered_seconds(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """Seconds for adding the knowledge of all workers by a reduce-scatter and a gather.

    Each worker adds one slice of all sums. There are twice as many levels, but every number is sent only twice.

    >>> scattered_seconds(Load(0, 10**6), 1024, Link(1e-5, 1e9), Handling(0.0, 1e-10, 0.0)) < 0.0025
    True
    """
    sent = load.size * (workers - 1) / workers
    levels = 2 * tree_depth(workers) * link.latency + sent * (2 / link.bandwidth + handling.adding)
    return _agreement(load, workers, link, handling) + levels


def _agreement(load: Load, workers: int, link: Link, handling: Handling) -> float:
    """Seconds for exchanging descriptions, and for packing."""
    if workers == 1:
        return 0.0
    each = load.described / link.bandwidth + handling.agreeing
    return 2 * tree_depth(workers) * link.latency + (workers - 1) * each + load.size * handling.packing


@dataclass(frozen=True)
class Measured:
    """Measurements of one number of ranks; see :mod:`mergesvm.reproduce.cascade.ranks`."""

    ranks: int
    rows: int
    width: int
    n_classes: int
    walls: list[float]  # seconds for learning and solving with the engine, for each repetition
    learning: list[float]  # CPU seconds of the slowest rank for learning its own rows, for each repetition
    solving: float  # CPU seconds at the root
    handling: Handling
    link: Link | None  # between two ranks; None for a single rank
    described: int  # bytes of the messages in which all ranks describe their rows and knowledge
    sent: int  # bytes counted by the engine, as are messages and rounds
    messages: int
    rounds: int
    coefficients: list[float]  # of the model at the root, the intercept last

    @classmethod
    def of(cls, found: dict[str, object]) -> Measured:
        """Create it from the JSON that the ranks print."""
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
        """Bytes that all ranks together send by the cost model: descriptions to all others, sums up the tree."""
        return (self.ranks - 1) * (self.described + self.size)

    @property
    def wall(self) -> float:
        """Seconds of the best repetition."""
        return min(self.walls)

    @property
    def joining(self) -> float:
        """Seconds for the tree by the cost model, with the link measured in this run."""
        if self.link is None:
            return 0.0
        return joining_seconds(Load(self.described / self.ranks, self.size), self.ranks, self.link, self.handling)

    @property
    def modelled(self) -> float:
        """Seconds on a machine with a core for each rank, by the cost model: CPU time, and the tree."""
        return min(self.learning) + self.joining + self.solving
