"""How soon a process starts is felt, and paid by every command: each loads only the libraries that it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[1]
UNNEEDED = {
    "reconciler.cli.commands.read.get": {"asyncio", "asyncssh", "pydantic", "sqlite3", "starlette", "yaml"},
    "reconciler.cli.core.commits, reconciler.source.editing, reconciler.bootstrap": {
        "asyncssh", "reconciler.planning", "reconciler.state", "sqlite3", "starlette",
    },
    "reconciler.bootstrap.controller": {"asyncssh", "starlette", "uvicorn"},
    "reconciler.bootstrap.gateway": {"asyncssh", "pydantic", "reconciler.state", "sqlite3", "yaml"},
    "reconciler.source.hook": {"asyncio", "asyncssh", "reconciler.state", "sqlite3", "starlette"},
}  # fmt: skip
"""What is imported for a command that reads, for one that writes, for a controller of machines that need no SSH, for
a gateway and for a push; and what is loaded later or never."""


@pytest.mark.parametrize("imported", UNNEEDED)
def test_a_process_loads_no_library_that_it_does_not_need(imported: str) -> None:
    code = f"import sys, {imported}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(done.stdout.split()) & UNNEEDED[imported] == set()
