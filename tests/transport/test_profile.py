"""What is asked of a machine before anything of ours runs there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import Unreachable
from reconciler.transport.profile import answer, question

MAC = {"uname": "echo Darwin", "readlink": 'echo "$2"', "xcode-select": "exit 2"}


def asked(python: str | None, tools: Path | None = None) -> str:
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"} if tools else None
    done = subprocess.run(
        question(python), capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return done.stdout


def test_the_python_of_the_manifest_comes_first() -> None:
    found = answer("Welcome!\n" + asked(sys.executable))
    assert (found.python, found.system) == (sys.executable, "Linux" if sys.platform == "linux" else "Darwin")
    assert str(found.root).endswith("/.reconciler")


def test_a_python_that_is_none_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert answer(asked(str(old))).python != str(old)


def test_the_stub_of_a_mac_without_command_line_tools_is_never_called(tmp_path: Path) -> None:
    """It opens a dialog: whether it would work is not tried."""
    for tool, script in MAC.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / tool).chmod(0o755)
    assert answer(asked("/usr/bin/python3", tmp_path)).python != "/usr/bin/python3"


def test_an_answer_that_is_none_is_quoted() -> None:
    with pytest.raises(Unreachable, match="This account is not available"):
        answer("This account is not available")
