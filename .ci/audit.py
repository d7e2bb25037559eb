"""Look up known vulnerabilities of the installed packages and of the minimum versions in pyproject.toml.

Fails if a fixed release exists: install or require it. Vulnerabilities without a fix, and a database that cannot be
reached, are only printed.

    python .ci/audit.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

SETTINGS = Path(__file__).parent.parent / "pyproject.toml"
MINIMUM = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")


def minimum_versions() -> list[str]:
    """Return the lower bound of every requirement, as ``name==version``."""
    settings = tomllib.loads(SETTINGS.read_text())
    project = settings["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *settings["dependency-groups"].values(),
    ]
    found = [MINIMUM.match(requirement) for group in groups for requirement in group]
    return sorted({f"{match[1]}=={match[2]}" for match in found if match})


def audit(*options: str) -> list[dict[str, Any]] | None:
    """Return the packages as pip-audit reports them, without those that it skipped; None without a database."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except json.JSONDecodeError:
        return None
    return [package for package in packages if "skip_reason" not in package] or None


def main() -> int:
    """Audit both, print what was found, and return the exit code."""
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        minimums = Path(folder, "requirements.txt")
        minimums.write_text("\n".join(minimum_versions()) + "\n")
        audits = {
            "installed": ("--local", "--skip-editable"),
            "minimum": ("--no-deps", "--disable-pip", "--requirement", str(minimums)),
        }
        for kind, options in audits.items():
            packages = audit(*options)
            if packages is None:
                print(f"Note: the {kind} versions were not audited, because the database cannot be reached.")
                continue
            print(f"Audited {len(packages)} {kind} versions.")
            for package in packages:
                for flaw in package["vulns"]:
                    fixed = ", ".join(flaw["fix_versions"]) or "no release"
                    print(f"{package['name']} {package['version']}: {flaw['id']}, fixed in {fixed}")
                    failed |= bool(flaw["fix_versions"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
