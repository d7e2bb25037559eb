"""Files of mergesvm with changed contents and a correct digest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mergesvm.files import container
from mergesvm.files.container import read_container


def forge(
    path: Path,
    of: str,
    change: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda *_: None,
    text: str | None = None,
    **strings: str | None,
) -> Path:
    """Change the header and the arrays of a file, and write the digest of the changed contents."""
    header, held = read_container(path, of)
    fields, held = json.loads(json.dumps(header.fields)), {name: array.copy() for name, array in held.items()}
    change(fields, held)
    text = json.dumps(fields) if text is None else text
    arrays = {name: np.ascontiguousarray(array) for name, array in held.items()}
    given = {"format": str(container.FORMAT), "kind": f"mergesvm {of}", "header": text}
    given["sha256"] = container._digest(of, text, arrays)
    save_file(arrays, path, {name: value for name, value in (given | strings).items() if value is not None})
    return path


def forge_model(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Path:
    """Change the header and the arrays of a model file."""
    return forge(path, "model", change)
