"""Kernel expansions in the files of models."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from scipy import sparse

from mergesvm.checks import listed
from mergesvm.errors import ParameterError
from mergesvm.files.content import Content
from mergesvm.files.header import MAX_NUMBER, Header
from mergesvm.knowledge.signature import Signature
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.fields import read_options, read_side_moments, read_weights
from mergesvm.models.kernel_function import KERNELS, Kernel
from mergesvm.models.score_moments import SideMoments

VECTOR_TYPES = ("<f8", "<f4", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8")
"""Types in which support vectors are stored; any other type is converted to float64."""


def expansion_fields(expansion: Expansion, options: dict[str, Any]) -> dict[str, Any]:
    """Return the header fields of an expansion; raise an error if it or the options could not be read back."""
    kernel = expansion.kernel
    if kernel.kind == "precomputed":
        raise ParameterError(
            "A model with kernel='precomputed' cannot be stored in a model file: without the kernel function it could "
            f"not predict rows. Use one of {listed(KERNELS)}, or pickle the estimator."
        )
    if kernel.kind not in KERNELS:
        raise ParameterError(
            f"The kernel {kernel.function!r} is a Python function, which cannot be stored in a model file. Use one of "
            f"{listed(KERNELS)}, or pickle the estimator."
        )
    weights = options["class_weight"] if isinstance(options["class_weight"], dict) else {}
    numbers = {"gamma": kernel.gamma, "coef0": kernel.coef0, "C": options["C"], "beta": options["beta"] or 0.0}
    for name, value in [*numbers.items(), *(("class_weight", weight) for weight in weights.values())]:
        if not abs(value) <= MAX_NUMBER:
            raise ParameterError(f"{name}={value!r} exceeds {MAX_NUMBER:g}, the largest number a file can store.")
    return {
        "kernel": [
            {
                "kind": kernel.kind,
                "gamma": float(kernel.gamma),
                "degree": int(kernel.degree),
                "coef0": float(kernel.coef0),
            }
        ],
        "sparse": sparse.issparse(expansion.vectors),
        "precision": expansion.precision,
    }


def expansion_arrays(expansion: Expansion) -> dict[str, NDArray[Any]]:
    """Support vectors, dual coefficients and intercepts."""
    vectors = expansion.vectors
    if sparse.issparse(vectors):
        stored = int(vectors.indptr[-1])
        arrays = {
            "vectors.starts": vectors.indptr.astype("<i8"),
            "vectors.columns": vectors.indices[:stored].astype("<i8"),
            "vectors.values": _storable(vectors.data[:stored]),
        }
    else:
        arrays = {"vectors": _storable(vectors)}
    return {
        **arrays,
        "support": expansion.counts.astype("<i8"),
        "coefs": expansion.coefs,
        "intercepts": expansion.intercepts,
    }


def _storable(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.str in VECTOR_TYPES else array.astype("<f8")


def check_kernel_domain(header: Header, content: Content, signature: Signature) -> None:
    """Raise an error for a feature map or a non-zero anchor, which kernel models do not have."""
    if signature.mapped:
        header.refuse("has a kernel model with a feature map")
    if content.arrays["anchor"].any():
        content.refuse("a kernel model with an anchor that is not zero")


def read_expansion(header: Header, content: Content, n_classes: int, width: int) -> tuple[Expansion, SideMoments]:
    """Read the expansion and the moments of its scores, and check them."""
    kernel, precision = _read_kernel(header), header.text("precision", "float64", "float32")
    pairs = n_classes * (n_classes - 1) // 2
    # Arrays whose size follows from the classes come first: a false number of classes fails before any allocation.
    intercepts, support = content.expect("intercepts", (pairs,)), content.expect("support", (n_classes,), "<i8")
    moments = read_side_moments(content, pairs, n_classes > 1)
    if (support < 0).any():
        content.refuse("a class with a negative number of support vectors")
    count = sum(support.tolist())
    given = content.arrays.get("coefs")
    shared = n_classes > 2 and given is not None and given.shape[:1] == (pairs,)
    coefs = content.expect("coefs", (pairs if shared else max(n_classes - 1, 1), count))
    if header.truth("sparse"):
        vectors = _read_sparse(content, count, width)
    else:
        vectors = content.expect("vectors", (count, width), *VECTOR_TYPES)
    return Expansion(kernel, vectors, support, coefs, intercepts, precision), moments


def _read_kernel(header: Header) -> Kernel:
    parts = header.parts("kernel")
    if len(parts) != 1:
        header.refuse("does not have exactly one kernel")
    fields = parts[0]
    kernel = Kernel(
        fields.text("kind", *KERNELS), fields.number("gamma"), fields.whole("degree", 1), fields.number("coef0")
    )
    try:
        return kernel.check()
    except ParameterError as error:
        fields.refuse(f"has an invalid kernel: {str(error).rstrip('.')}")


def _read_sparse(content: Content, count: int, width: int) -> Any:
    """Read a CSR array and check every index: compiled code does not."""
    starts = content.expect("vectors.starts", (count + 1,), "<i8")
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        content.refuse("starts of sparse rows that do not increase from 0")
    stored = int(starts[-1])
    columns = content.expect("vectors.columns", (stored,), "<i8")
    values = content.expect("vectors.values", (stored,), *VECTOR_TYPES)
    if stored and not (columns.min() >= 0 and columns.max() < width):
        content.refuse(f"a sparse row with a column outside of 0 to {width - 1}")
    vectors = sparse.csr_array((values, columns, starts), shape=(count, width))
    for array in (vectors.data, vectors.indices, vectors.indptr):
        array.flags.writeable = False
    return vectors


def read_kernel_options(header: Header) -> dict[str, Any]:
    """Read C, class weights, beta and the number of units, and check them."""
    options = read_options(header)
    C = options.number("C")
    beta = None if options.take("beta", float, int, type(None)) is None else options.number("beta")
    if C <= 0 or (beta is not None and beta <= 0):
        options.refuse("has a C or a beta that is not positive")
    return {
        "C": C,
        "class_weight": read_weights(options),
        "multiclass": options.text("multiclass", "ovo"),
        "beta": beta,
        "units": options.whole("units", 1),
    }
