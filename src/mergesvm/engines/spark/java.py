"""The Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from mergesvm.errors import EngineError

OLDEST_JAVA = 17
"""What Spark 4 needs."""

CURE = "Install one, for example with `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME to one that is there."


def find_java() -> str:
    """The path of the Java that Spark would start, if it is new enough: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    needed = f"Spark needs Java {OLDEST_JAVA} or newer"
    if java is None:
        raise EngineError(f"{needed}, and there is no Java on the PATH, nor is JAVA_HOME set. {CURE}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{needed}, but {java} does not run ({error}). {CURE}") from error
    version = java_version(answer)
    if version < OLDEST_JAVA:
        raise EngineError(f"{needed}, but {java} is Java {version}. {CURE}")
    return java


def java_version(answer: str) -> int:
    """The number of a release of Java, from what ``java -version`` says; 0 if it says none.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_291"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found.group(1)) if found else 0
