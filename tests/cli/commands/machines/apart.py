"""The command line in a process of its own, for a person with a home and keys of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path


async def run_apart(home: Path, mine: Path, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """Run a command for the cluster in ``home``; its exit status, output and errors. ``mine``: the person's home."""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "reconciler", "--home", str(home), *arguments],
        capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL, cwd=cwd,
        env={**os.environ, "HOME": str(mine), "SSH_AUTH_SOCK": "", "NO_COLOR": "1"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr
