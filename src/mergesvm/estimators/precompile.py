"""Compilation of numba functions ahead of time."""

from __future__ import annotations

import numpy as np

from mergesvm.checks import check_flag
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT


def precompile(*, estimators: bool = False) -> None:
    """Compile and load the functions that ``ms.learn`` uses, and those of the estimators on request.

    By default, functions are compiled or loaded when they are first needed; those of ``ms.learn``, once they pay. Call
    this before the first request of a server or before a measurement. The first call on a machine takes many seconds,
    and numba caches the result on disk: call it with ``estimators=True`` when a container image is built, so that no
    user waits.

    Parameters
    ----------
    estimators : bool
        Also compile ``RecursiveSVC``, ``PegasosSVC``, ``ParallelKernelSVC`` and the map ``Patches``, for the most
        common dtypes.

    Examples
    --------
    >>> import mergesvm as ms
    >>> ms.precompile()
    """
    from mergesvm.data import hashing_jit  # imports numba
    from mergesvm.data.text_parser.warmup import compile_text_parsers  # imports numba and pyarrow

    check_flag("estimators", estimators)
    GRAM_JIT.load().compile_all()
    hashing_jit.compile_all()
    compile_text_parsers()
    if not estimators:
        return
    from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
    from mergesvm.estimators.pegasos_svc import PegasosSVC
    from mergesvm.estimators.recursive_svc import RecursiveSVC
    from mergesvm.features.maps.patches import Patches

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 4)), np.arange(60) % 3
    RecursiveSVC().fit(X, y).learn_one(X[0], y[0])
    PegasosSVC(n_iter=10).fit(X, y).predict(X)
    ParallelKernelSVC().fit(X, y).predict(X)
    Patches(2, size=1, pooling=1).freeze(X).transform(X)
