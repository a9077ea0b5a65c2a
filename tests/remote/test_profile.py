"""What is asked of a machine before anything of ours runs there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.errors import Unreachable
from reconciler.remote.bootstrap.profile import answer, none, question

pytestmark = pytest.mark.processes

MAC = {"uname": "echo Darwin", "readlink": 'echo "$2"', "xcode-select": "exit 2"}


def profile_output(python: str | None, tools: Path | None = None) -> str:
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"} if tools else None
    done = subprocess.run(
        question(python), capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    return done.stdout


def test_the_python_of_the_manifest_comes_first() -> None:
    found = answer("Welcome!\n" + profile_output(sys.executable))
    assert (found.python, found.system) == (sys.executable, "Linux" if sys.platform == "linux" else "Darwin")
    assert str(found.root).endswith("/.reconciler")


def test_a_python_that_is_none_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert answer(profile_output(str(old))).python != str(old)


def test_the_stub_of_a_mac_without_command_line_tools_is_never_called(tmp_path: Path) -> None:
    """It opens a dialog: whether it would work is not tried."""
    for tool, script in MAC.items():
        (tmp_path / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / tool).chmod(0o755)
    assert answer(profile_output("/usr/bin/python3", tmp_path)).python != "/usr/bin/python3"


def test_an_answer_that_is_none_is_quoted() -> None:
    with pytest.raises(Unreachable, match="This account is not available"):
        answer("This account is not available")


@pytest.mark.parametrize(
    ("named", "coming", "words"),
    [
        (
            "/opt/mine/bin/python3",
            True,
            "/opt/mine/bin/python3 in spec.python is not one either: correct",
        ),
        (None, True, "its runtime, which is being built, includes one"),
        (None, False, "there is no runtime for Linux/riscv64: install Python, or set it in spec.python"),
    ],
)
def test_what_to_do_where_there_is_no_python_depends_on_whose_matter_it_is(
    named: str | None, coming: bool, words: str
) -> None:
    found = replace(answer(profile_output(None)), system="Linux", machine="riscv64", user="ada", python="")
    message = none(found, "far", named, coming)
    assert message.startswith("there is no Python 3.9 or newer on far for user ada")
    assert words in message
    mac = none(replace(found, system="Darwin"), "far", named, coming)
    assert "/usr/bin/python3 needs the Command Line Tools" in mac
