from __future__ import annotations

from types import ModuleType

import numpy as np

import mergesvm as ms
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT, JitPolicy


def policy():
    return JitPolicy(lambda: ModuleType("compiled"), load_seconds=2.0)


def test_the_module_is_loaded_once_the_time_saved_adds_up_to_its_cost():
    jit = policy()
    assert jit.when_worth(1.0) is None
    assert jit.when_worth(0.5) is None
    assert jit.loaded is None
    module = jit.when_worth(1.0)
    assert module is not None
    assert jit.loaded is jit.when_worth(0.0) is jit.load() is module


def test_a_disabled_policy_returns_no_functions():
    jit = policy()
    jit.load()
    jit.enabled = False
    assert jit.loaded is None
    assert jit.when_worth(100.0) is None


def test_precompiled_functions_need_no_further_compilation():
    ms.precompile()
    jit = GRAM_JIT.loaded
    for function in (jit.add_rows, jit.finish, jit.scatter_rows):
        assert function.signatures
    before = list(jit.add_rows.signatures)
    ms.learn(np.ones((5, 3)), [1, 2, 1, 2, 1], np.ones(5))
    assert jit.add_rows.signatures == before
