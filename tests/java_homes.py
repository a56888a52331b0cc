"""Javas on this machine that are newer than Spark's, for servers that want one."""

import os
import re
import subprocess
from pathlib import Path


def find_java(variable: str, release: int) -> str | None:
    """A java of this release or newer: the one that the environment's `variable` names, or one of those where Linux
    keeps them. None without any."""
    named = os.environ.get(variable)
    found = [named] if named else [str(path) for path in sorted(Path("/usr/lib/jvm").glob("*/bin/java"))]
    for command in found:
        told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', told)
        if version and int(version[1]) >= release:
            return command
    return None
