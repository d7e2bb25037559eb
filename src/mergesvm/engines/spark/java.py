"""Finds the Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from mergesvm.errors import EngineError

MIN_JAVA = 17
"""The oldest Java that Spark 4 supports."""

CURE = "Install it, for example with `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME."


def find_java() -> str:
    """Return the path of the Java that Spark would start, from JAVA_HOME or the PATH, after checking its version."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    needed = f"Spark needs Java {MIN_JAVA} or newer"
    if java is None:
        raise EngineError(f"{needed}, and there is no Java on the PATH, nor is JAVA_HOME set. {CURE}")
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{needed}, but {java} does not run ({error}). {CURE}") from error
    version = java_version(output)
    if version < MIN_JAVA:
        raise EngineError(f"{needed}, but {java} is Java {version}. {CURE}")
    return java


def java_version(output: str) -> int:
    """Parse the output of ``java -version``; 0 if it has no version.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_291"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else 0
