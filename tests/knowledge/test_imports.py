from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import mergesvm.knowledge.folds, mergesvm.features.format
from mergesvm.features.registry import map_classes
map_classes()
print(*({"sklearn", "pyarrow", "numba", "pandas", "scipy.stats", "scipy.optimize"} & set(sys.modules)))
"""


def test_knowledge_and_feature_maps_import_no_slow_packages():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
