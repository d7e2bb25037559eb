"""Kernel models as files: what they have besides that which all models have."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from scipy import sparse

from mergesvm.errors import ParameterError
from mergesvm.files.content import Content
from mergesvm.files.header import LARGEST, Header
from mergesvm.knowledge.signature import Signature
from mergesvm.models.expansion import Expansion
from mergesvm.models.formats.fields import moment_arrays, read_side_moments, read_terms, read_weights
from mergesvm.models.kernel import KERNEL_SOLVERS, KernelModel
from mergesvm.models.kernel_function import KERNELS, Kernel
from mergesvm.models.score_moments import SideMoments

NUMBERS = ("<f8", "<f4", "|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8")
"""Support vectors keep the type that they have; of any other type they become float64."""


def kernel_fields(model: KernelModel) -> dict[str, Any]:
    """The kernel and the form of its support vectors as plain values, or an error if they could not be read again."""
    expansion, terms = model.expansion, model.domain.terms
    kernel = expansion.kernel
    if kernel.kind not in KERNELS:
        raise ParameterError(
            f"The kernel {kernel.function!r} is a function, and so code, which no file of ours holds. Choose one of "
            f"{', '.join(map(repr, KERNELS))}, or pickle the machine for those who trust you."
        )
    weights = terms["class_weight"] if isinstance(terms["class_weight"], dict) else {}
    numbers = {"gamma": kernel.gamma, "coef0": kernel.coef0, "C": terms["C"], "beta": terms["beta"] or 0.0}
    for name, value in [*numbers.items(), *(("class_weight", weight) for weight in weights.values())]:
        if not abs(value) <= LARGEST:
            raise ParameterError(f"{name}={value!r} is beyond {LARGEST:g}, which cannot be kept in a file.")
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


def kernel_arrays(model: KernelModel) -> dict[str, NDArray[Any]]:
    """Support vectors, their multipliers and all else that scores rows."""
    expansion, vectors = model.expansion, model.expansion.vectors
    if sparse.issparse(vectors):
        stored = int(vectors.indptr[-1])
        held = {
            "vectors.starts": vectors.indptr.astype("<i8"),
            "vectors.columns": vectors.indices[:stored].astype("<i8"),
            "vectors.values": _plain(vectors.data[:stored]),
        }
    else:
        held = {"vectors": _plain(vectors)}
    return {
        **held,
        "support": expansion.counts.astype("<i8"),
        "coefs": expansion.coefs,
        "intercepts": expansion.intercepts,
        **moment_arrays(model._moments),
    }


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.str in NUMBERS else array.astype("<f8")


def check_kernel_domain(header: Header, content: Content, signature: Signature) -> None:
    """Refuse what only models of planes have: a feature map, and a point about which rows are scored."""
    if signature.mapped:
        header.refuse("has a feature map for a kernel model, which takes rows as they are")
    if content.arrays["anchor"].any():
        content.refuse("an anchor for a kernel model that is not zero")


def read_expansion(header: Header, content: Content, n_classes: int, width: int) -> tuple[Expansion, SideMoments]:
    """What scores rows, from plain values and arrays, each checked."""
    kernel, precision = _read_kernel(header), header.text("precision", "float64", "float32")
    pairs = n_classes * (n_classes - 1) // 2
    # First those whose size is known from the classes, so that nothing is made for more of them than the file holds.
    intercepts, support = content.expect("intercepts", (pairs,)), content.expect("support", (n_classes,), "<i8")
    moments = read_side_moments(content, pairs, n_classes > 1)
    if (support < 0).any():
        content.refuse("a class of less than no support vectors")
    count = sum(support.tolist())
    coefs = content.expect("coefs", (max(n_classes - 1, 1), count))
    if header.truth("sparse"):
        vectors = _read_sparse(content, count, width)
    else:
        vectors = content.expect("vectors", (count, width), *NUMBERS)
    return Expansion(kernel, vectors, support, coefs, intercepts, precision), moments


def _read_kernel(header: Header) -> Kernel:
    parts = header.parts("kernel")
    if len(parts) != 1:
        header.refuse("has not one kernel")
    fields = parts[0]
    kernel = Kernel(
        fields.text("kind", *KERNELS), fields.number("gamma"), fields.whole("degree", 1), fields.number("coef0")
    )
    try:
        return kernel.check()
    except ParameterError as error:
        fields.refuse(f"has a kernel that cannot be: {str(error).rstrip('.')}")


def _read_sparse(content: Content, count: int, width: int) -> Any:
    """A CSR array of which every place is checked: compiled code would follow a wrong one anywhere."""
    starts = content.expect("vectors.starts", (count + 1,), "<i8")
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        content.refuse("starts of sparse rows that do not go up from 0")
    stored = int(starts[-1])
    columns = content.expect("vectors.columns", (stored,), "<i8")
    values = content.expect("vectors.values", (stored,), *NUMBERS)
    if stored and not (columns.min() >= 0 and columns.max() < width):
        content.refuse(f"a column of a sparse row that is not among {width}")
    vectors = sparse.csr_array((values, columns, starts), shape=(count, width))
    for array in (vectors.data, vectors.indices, vectors.indptr):
        array.flags.writeable = False
    return vectors


def read_kernel_terms(header: Header) -> dict[str, Any]:
    """C, class weights, beta and the number of units, each checked."""
    terms = read_terms(header)
    C = terms.number("C")
    beta = None if terms.take("beta", float, int, type(None)) is None else terms.number("beta")
    if C <= 0 or (beta is not None and beta <= 0):
        terms.refuse("has a C or a beta that is not positive")
    return {
        "C": C,
        "class_weight": read_weights(terms),
        "multiclass": terms.text("multiclass", "ovo"),
        "beta": beta,
        "units": terms.whole("units", 1),
    }


def read_method(header: Header) -> str:
    """The method by which it was trained."""
    return header.text("solver", *KERNEL_SOLVERS)
