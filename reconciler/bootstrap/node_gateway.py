"""A gateway on a machine other than the controller's: the program of its file (``remote/runtime/gateway_file.py``)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .gateway import run_gateway


def main(words: Sequence[str]) -> int:
    """Run the gateway of the home in ``words``: its file, the home, and ``detach`` if it should outlive its starter."""
    file, home, *more = words
    if more != ["detach"]:
        return run_gateway(Path(home), any_port=False)
    with Path(home, "gateway.log").open("ab") as log:
        subprocess.Popen(
            (sys.executable, "-I", file, home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return 0
