"""Completion in a real bash, and what zsh and fish are told; names with and without a controller."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Controller
from tests.cli.live import ROOT, manifest

pytestmark = pytest.mark.processes

COMPLETE = """
source <("$RECONCILER" completion bash)
COMP_WORDS=({words}) COMP_CWORD={last}
_reconciler_completion reconciler "${{COMP_WORDS[{last}]}}" ""
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """`reconciler` as a program that can be found."""
    program = tmp_path / "bin" / "reconciler"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
    program.chmod(0o755)
    return program


def completed(command: Path, home: Path, line: str) -> tuple[list[str], str]:
    """What bash offers for the last word of a line, and what was said on standard error."""
    words = line.split(" ")
    script = COMPLETE.format(words=" ".join(f"'{word}'" for word in words), last=len(words) - 1)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RECONCILER": str(command),
        "RECONCILER_HOME": str(home),
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("reconciler get modeldeployments ti", ["tiny"]),
        ("reconciler descr", ["describe"]),
        ("reconciler get modeld", ["modeldeployments"]),
        ("reconciler get dep", ["deployments"]),
        ("reconciler describe ti", ["tiny"]),
        ("reconciler rollout status ti", ["tiny"]),
        ("reconciler help rollo", ["rollout"]),
        ("reconciler get node/node-", ["node/node-a", "node/node-b"]),
        ("reconciler get nodes node-a n", ["node-b"]),
        ("reconciler get nodes --watch-o", ["--watch-only"]),
        ("reconciler cordon node-", ["node-a", "node-b"]),
        ("reconciler logs ti", ["tiny"]),
        ("reconciler explain modeldeployment.spec.par", ["modeldeployment.spec.parallelism"]),
        ("reconciler completion z", ["zsh"]),
        ("reconciler get podz x", []),
    ],
)
def test_bash_completes_from_the_controller(
    line: str, offered: list[str], command: Path, home: Path, controller: Controller
) -> None:
    assert completed(command, home, line) == (offered, "")


def test_without_a_controller_names_come_from_the_repository(cli: Cli, home: Path, command: Path) -> None:
    cli("apply", "-f", "-", stdin="---\n".join(map(manifest, ("tiny", "big", "node-a", "tiny-model"))))
    assert completed(command, home, "reconciler get modeldeployments ti") == (["tiny"], "")
    assert completed(command, home, "reconciler get md ") == (["big", "tiny"], "")


def test_without_anything_completion_is_silent(home: Path, command: Path) -> None:
    assert completed(command, home, "reconciler get modeldeployments ti") == ([], "")
    home.mkdir()
    (home / "cluster.git").write_text("no repository")
    assert completed(command, home, "reconciler get modeldeployments ti") == ([], "")


def test_a_completed_word_needs_no_pydantic() -> None:
    code = "import sys, reconciler.cli.commands.read.get, reconciler.cli.core.complete; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        ("bash", ["complete -o nosort -F _reconciler_completion reconciler"]),
        ("zsh", ["#compdef reconciler", "compdef _reconciler_completion reconciler"]),
        ("fish", ["complete --no-files --command reconciler --arguments"]),
    ],
)
def test_every_shell_gets_its_script(shell: str, lines: list[str], cli: Cli) -> None:
    result = cli("completion", shell)
    assert (result.code, result.err) == (0, "")
    assert [line for line in lines if line not in result.out] == []
    assert f"_RECONCILER_COMPLETE={shell}_complete" in result.out
