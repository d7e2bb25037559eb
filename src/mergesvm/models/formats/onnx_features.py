"""Feature maps as steps of ONNX graphs.

Every map takes and returns rows in double, and computes in its own precision. In ONNX's numbering of types, float is 1
and double is 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.chain import Chain
from mergesvm.features.maps.components import Components
from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.features.maps.fourier import Fourier
from mergesvm.features.maps.hidden_layer import HiddenLayer
from mergesvm.features.maps.identity import Identity
from mergesvm.features.maps.nystroem import Nystroem
from mergesvm.features.maps.patches import CONTRAST_VARIANCE, Patches
from mergesvm.features.ops.image import Image
from mergesvm.features.ops.palette import colour_table, grid_levels
from mergesvm.features.random_map import RandomMap

Constants = dict[str, NDArray[Any]]

TYPES = {"float32": 1, "float64": 11}

NUMBERS: Constants = {
    "zero": np.array(0.0),
    "one": np.array(1.0),
    "minus_half": np.array(-0.5),
    "minus_one": np.array(-1.0),
    "quarter_turn": np.array(np.pi / 2),
}

# Gemm, because onnxruntime fuses a scalar factor before or after MatMul into it, rounded to float.
PROJECTION = """
    activity = Gemm(near, weights, bias)
"""

# Not the operator Sigmoid, as in the probabilities of models.
ACTIVATIONS = {
    "sigmoid": """
    opposite = Neg(activity)
    powers = Exp(opposite)
    powers_and_one = Add(powers, one)
    applied = Reciprocal(powers_and_one)
""",
    "tanh": "applied = Tanh(activity)",
    "relu": "applied = Relu(activity)",
    "sine": "applied = Sin(activity)",
    "gaussian": """
    squared = Mul(activity, activity)
    exponents = Mul(squared, minus_half)
    applied = Exp(exponents)
""",
    "absolute": "applied = Abs(activity)",
    "square": "applied = Mul(activity, activity)",
    # Not every onnxruntime has cosines in double.
    "cosine": """
    shifted = Add(activity, quarter_turn)
    applied = Sin(shifted)
""",
    "hardlimit": """
    is_on = GreaterOrEqual(activity, zero)
    applied = Where(is_on, one, zero)
""",
    "sign": """
    is_positive = GreaterOrEqual(activity, zero)
    applied = Where(is_positive, one, minus_one)
""",
    "triangular": """
    sizes = Abs(activity)
    below_one = Sub(one, sizes)
    applied = Relu(below_one)
""",
    "softplus": """
    sizes = Abs(activity)
    opposite_of_sizes = Neg(sizes)
    powers = Exp(opposite_of_sizes)
    powers_and_one = Add(powers, one)
    rests = Log(powers_and_one)
    positive = Relu(activity)
    applied = Add(positive, rests)
""",
    "softsign": """
    sizes = Abs(activity)
    sizes_and_one = Add(sizes, one)
    applied = Div(activity, sizes_and_one)
""",
    "swish": """
    opposite = Neg(activity)
    powers = Exp(opposite)
    powers_and_one = Add(powers, one)
    applied = Div(activity, powers_and_one)
""",
    "multiquadric": """
    squared = Mul(activity, activity)
    squared_and_one = Add(squared, one)
    applied = Sqrt(squared_and_one)
""",
    "linear": "applied = Identity(activity)",
}

KERNELS = {
    "rbf": """
    squared = Mul(near, near)
    scaled_lengths = Gemm(squared, factors)
    opposite_of_distances = Sub(activity, scaled_lengths)
    exponents = Min(opposite_of_distances, zero)
    kernel = Exp(exponents)
""",
    "polynomial": "kernel = Pow(activity, degree)",
}

COMPONENTS = """
    applied = Gemm(near, directions)
"""

WHITENING = """
    applied = Gemm(kernel, whitening)
"""

# Gather instead of Conv, which is not available in double everywhere: all patches of the rows are in memory at a time.
# Padding refers to an additional first column of zeros.
RESPONSES = """
    near_and_rim = Pad(near, before)
    patches = Gather <axis = 1> (near_and_rim, at)
    means = ReduceMean(patches, last)
    contours = Sub(patches, means)
    products = MatMul(contours, filters)
    lengths = ReduceSumSquare(contours, last)
    variances = Div(lengths, values)
    variances_and_faint = Add(variances, faint)
    contrasts = Sqrt(variances_and_faint)
    quotients = Div(products, contrasts)
    responses = Sub(quotients, offsets)
"""

RECTIFIERS = {
    "relu": "rectified = Relu(responses)",
    "absolute": "rectified = Abs(responses)",
    "split": """
    opposite = Neg(responses)
    positive = Relu(responses)
    negative = Relu(opposite)
    rectified = Concat <axis = 2> (positive, negative)
""",
}

# One matrix with a line per row and filter, because onnxruntime cannot broadcast regions to a batch of no rows.
POOLING = """
    by_filter = Transpose <perm = [0, 2, 1]> (rectified)
    lines = Flatten <axis = 2> (by_filter)
    pooled_lines = Gemm(lines, regions)
    pooled_by_filter = Reshape(pooled_lines, by_row)
    pooled = Transpose <perm = [0, 2, 1]> (pooled_by_filter)
    applied = Flatten <axis = 1> (pooled)
"""


# The colour of each pixel, the pairs of equal colour, and their number by colour; pairs of two colours have a code of
# their own, which is left out. A dimension of 0 in by_pixel is that of the input.
PAIRS = """
    shifted = Sub(near, low)
    positions = Mul(shifted, factor)
    floors = Floor(positions)
    not_below = Max(floors, zero)
    levels = Min(not_below, top)
    pixels = Reshape(levels, by_pixel)
    weighted_levels = Mul(pixels, powers)
    cell_numbers = ReduceSum <keepdims = 0> (weighted_levels, channel_axis)
    cells = Cast <to = 7> (cell_numbers)
    nearest = Gather(table, cells)
    starts = Gather <axis = 1> (nearest, starting_at)
    ends = Gather <axis = 1> (nearest, ending_at)
    equal = Equal(starts, ends)
    codes = Where(equal, starts, no_pair)
    one_hot = OneHot(codes, n_codes, off_and_on)
    code_counts = ReduceSum <keepdims = 0> (one_hot, pair_axis)
    colour_counts = Gather <axis = 1> (code_counts, code_indices)
"""

VALUES = {
    "count": "applied = Identity(counts)",
    "root": "applied = Sqrt(counts)",
    "hellinger": """
    totals = ReduceSum(counts, colour_axis)
    divisors = Max(totals, one)
    proportions = Div(counts, divisors)
    applied = Sqrt(proportions)
""",
}


def map_steps(features: FeatureMap) -> tuple[str, Constants, str]:
    """Steps from ``X`` to mapped rows in double, the constants they refer to, and the name of the mapped rows.

    >>> text, constants, rows = map_steps(HiddenLayer(4, activation="tanh").freeze([[0.0], [1.0]]))
    >>> print(text)
        f0_centred = Sub(X, f0_centre)
        f0_rounded = Cast <to = 11> (f0_centred)
        f0_near = Mul(f0_rounded, f0_unit)
        f0_activity = Gemm(f0_near, f0_weights, f0_bias)
        f0_applied = Tanh(f0_activity)
        f0_features = Mul(f0_applied, f0_gain)
        f0_mapped = Cast <to = 11> (f0_features)
    >>> rows
    'f0_mapped'
    """
    stages = features.stages if isinstance(features, Chain) else () if isinstance(features, Identity) else (features,)
    text, constants, rows = "", Constants(), "X"
    for index, stage in enumerate(stages):
        prefix = f"f{index}_"
        steps, arrays = _stage(stage)
        # Prefix all names except operators, which begin with a capital, and attributes, after a bracket.
        own_steps = re.sub(r"(?<![<\w])[a-z]\w*", rf"{prefix}\g<0>", steps)
        text += f"    {prefix}centred = Sub({rows}, {prefix}centre){own_steps}"
        constants |= {prefix + name: array for name, array in arrays.items()}
        rows = f"{prefix}mapped"
    return text, constants, rows


def _stage(features: FeatureMap) -> tuple[str, Constants]:
    """Steps of one map from ``centred`` to ``mapped``, and its constants."""
    if not isinstance(features, RandomMap) or features.kind not in KINDS:
        raise ParameterError(
            f"{features!r} cannot be exported to ONNX; these maps can: {', '.join(KINDS)}. Learn "
            f"with one of them; or learn from mapped rows, map.transform(X), and pass mapped rows to the graph."
        )
    steps, constants = KINDS[features.kind](features)
    text = f"""
    rounded = Cast <to = {TYPES[features.precision]}> (centred)
    near = Mul(rounded, unit)
    {steps}
    features = Mul(applied, gain)
    mapped = Cast <to = 11> (features)
    """
    constants |= NUMBERS | {"unit": 1 / features.arrays["scale"]}
    own = {name: array.astype(features.dtype) for name, array in constants.items() if array.dtype.kind == "f"}
    return text, {**features.arrays, **constants, **own}


def _hidden(layer: HiddenLayer) -> tuple[str, Constants]:
    """g(W'x + b)."""
    return PROJECTION + ACTIVATIONS[layer.activation], {}


def _fourier(fourier: Fourier) -> tuple[str, Constants]:
    """cos(w.x + b) as sin(w.x + b + pi/2): not every onnxruntime has cosines in double."""
    return PROJECTION + ACTIVATIONS["sine"], {"bias": fourier.arrays["bias"] + NUMBERS["quarter_turn"]}


def _nystroem(nystroem: Nystroem) -> tuple[str, Constants]:
    """K_LL^(-1/2) k(L, x)."""
    constants = {
        "weights": nystroem.arrays["landmarks"],
        "bias": nystroem.arrays["constants"],
        "factors": np.full((nystroem.layout.width, 1), nystroem.arrays["factor"][0]),
        "degree": np.array(float(nystroem.degree)),
    }
    return PROJECTION + KERNELS[nystroem.kernel] + WHITENING, constants


def _patches(patches: Patches) -> tuple[str, Constants]:
    """Rectified responses, averaged over regions."""
    inputs = patches.layout.width
    columns = patches.pad(np.arange(1, inputs + 1)[None]).ravel()
    regions = _averages(patches.regions).T
    at = columns[patches.padded_shape(inputs).patches(patches.size)]
    constants = {
        "before": np.array([0, 1, 0, 0]),
        # 32 bits suffice: the number of values of all patches is limited.
        "at": at.astype(np.int32),
        "last": np.array([2]),
        "values": np.array(float(at.shape[1])),
        "faint": np.array(CONTRAST_VARIANCE),
        "regions": regions,
        "by_row": np.array([-1, patches.width // regions.shape[1], regions.shape[1]]),
    }
    return RESPONSES + RECTIFIERS[patches.rectify] + POOLING, constants


def _correlogram(correlogram: Correlogram) -> tuple[str, Constants]:
    """Pairs of pixels of equal colour, counted."""
    image, (down, across) = Image.of(correlogram.image, correlogram.layout.width), correlogram.distances
    place = np.arange(image.height * image.width).reshape(image.height, image.width)
    starts, ends = (
        np.concatenate([place[:, :-across].ravel(), place[:-down].ravel()]),
        np.concatenate([place[:, across:].ravel(), place[down:].ravel()]),
    )
    low, high = correlogram.arrays["bounds"]
    levels, n_colours = grid_levels(image.channels), correlogram.n_colours
    constants = {
        "low": np.array(low),
        "factor": np.array(levels / (high - low) if high > low else 0.0),
        "top": np.array(levels - 1.0),
        "by_pixel": np.array([0, image.height * image.width, image.channels]),
        "powers": np.float64(levels) ** np.arange(image.channels)[::-1],
        "table": colour_table(correlogram.arrays["colours"], image.channels).astype(np.int64),
        "starting_at": starts,
        "ending_at": ends,
        "no_pair": np.array(n_colours),
        "n_codes": np.array([n_colours + 1]),
        "off_and_on": np.array([0, 1]),
        "channel_axis": np.array([2]),
        "pair_axis": np.array([1]),
        "colour_axis": np.array([1]),
        "code_indices": np.arange(n_colours),
    }
    cast = f"    counts = Cast <to = {TYPES[correlogram.precision]}> (colour_counts)\n    "
    return PAIRS + cast + VALUES[correlogram.values], constants


def _components(components: Components) -> tuple[str, Constants]:  # noqa: ARG001
    """V'(x - mean)."""
    return COMPONENTS, {}


def _averages(regions: list[NDArray[np.intp]]) -> NDArray[np.float64]:
    """The matrix that averages over regions, (regions, places), from their bounds."""
    sides = []
    for bounds in regions:
        place = np.arange(bounds[-1])
        inside = (place >= bounds[:-1, None]) & (place < bounds[1:, None])
        sides.append(inside / inside.sum(axis=1, keepdims=True))
    matrix: NDArray[np.float64] = np.kron(*sides)
    return matrix


KINDS: dict[str, Callable[[Any], tuple[str, Constants]]] = {
    HiddenLayer.kind: _hidden,
    Fourier.kind: _fourier,
    Nystroem.kind: _nystroem,
    Patches.kind: _patches,
    Components.kind: _components,
    Correlogram.kind: _correlogram,
}
"""Steps of each kind of map from ``near`` to ``applied``."""
