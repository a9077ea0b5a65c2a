"""What tests as root need, and whether this machine has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

_SECONDS = 30.0


def why_not(tools: Sequence[str], packages: str, trial: Sequence[str], lacking: str) -> str:
    """Why something cannot be had here; empty where it can.

    ``packages`` have the ``tools``; ``trial`` is a command that works only where the kernel has what is needed, and
    ``lacking`` says what is not there if it fails.
    """
    if sys.platform != "linux":
        return f"it needs Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "it needs root"
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        return f"it needs {', '.join(missing)}: packages {packages}"
    tried = subprocess.run(trial, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return f"{lacking}: {tried.stderr.strip()}" if tried.returncode else ""
