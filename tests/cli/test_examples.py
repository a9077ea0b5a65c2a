"""Every example of every command's help is understood, and ends as commands end: by itself, or by Ctrl-C."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reconciler.cli.core.app import LISTED, reconciler

from .conftest import Result, called
from .live import API, ROOT, live

FOLLOWED_SECONDS = 2
ENDED_SECONDS = 30
WAITS = re.compile(r" (-w|-f|status|wait|drain|delete|--force)(?!\S)")
"""What goes on until something has come true, or until Ctrl-C; nothing comes true where no rank can start."""
SERVICE = (
    "reconciler install",
    "reconciler uninstall",
    "reconciler upgrade",
    "reconciler rollback",
    "uv tool ",
)
"""What changes this machine, or what is installed on it."""
CLUSTERS = (
    "reconciler up ",
    "reconciler --home /tmp/try quickstart",
    "reconciler sandbox ",
    "reconciler rehearse ",
)
ELSEWHERE = (*CLUSTERS, *SERVICE)
"""Whole clusters in the foreground: tests/e2e/test_up.py. Emulated Macs: test_sandbox.py, in one process."""
NEEDS = {"| jq ": "jq", " ssh://": "ssh"}
"""Programs that examples start beside ours, by a part of the line."""
FOR_A_SHELL = re.compile(r"^(?!reconciler [a-z])|[|<>&~*]| --context")
"""What is more than one command and its words."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by what is typed for it."""
    root = click.Context(reconciler, info_name="reconciler")
    for name in LISTED:
        command = reconciler.get_command(root, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for inner in command.list_commands(root):
                found = command.get_command(root, inner)
                assert found is not None
                yield f"{name} {inner}", found


def examples_of(command: click.Command) -> list[str]:
    """The lines of its help's examples, without what is said beside them."""
    lines = inspect.cleandoc(command.help or "").partition("\b\n")[2].splitlines()[1:]
    return [line.strip().partition("    ")[0] for line in lines if line.strip()]


EXAMPLES = [line for _, command in commands() for line in examples_of(command)]
RUN_HERE = [line for line in dict.fromkeys(EXAMPLES) if not line.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def shell() -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with what the examples speak of, and an environment with the command in its path."""
    with live() as made:
        place = made.home.parent / "work"
        programs = place / "bin"
        (place / ".config/fish/completions").mkdir(parents=True)
        programs.mkdir()
        for name, words in (
            ("reconciler", f'exec {sys.executable} -P -m reconciler "$@"'),
            ("code", "exit 0"),
        ):
            (programs / name).write_text(f"#!/bin/sh\n{words}\n")
            (programs / name).chmod(0o755)
        (place / "manifests").symlink_to(ROOT / "manifests")
        (place / "schemas").mkdir()
        (place / "llama.yaml").write_text(
            f"{API}kind: ModelDeployment\nmetadata: {{name: llama}}\nspec: {{model: tiny}}\n"
        )
        recorded = made.run("facts", "export", "-o", str(place / ".reconciler" / "facts.json"))
        assert recorded.returncode == 0, recorded.stderr
        yield (
            place,
            {
                "PATH": f"{programs}:{os.environ['PATH']}",
                "HOME": str(place),
                "RECONCILER_HOME": str(made.home),
                "EDITOR": "true",
                "GIT_AUTHOR_NAME": "t",
                "GIT_AUTHOR_EMAIL": "t@example.com",
            },
        )


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(line, marks=[pytest.mark.needs(name) for mark, name in NEEDS.items() if mark in line])
        for line in RUN_HERE
    ],
)
def test_an_example_is_understood(
    shell: tuple[Path, dict[str, str]],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Most are run in this process, for two hundred that import everything anew take two minutes."""
    place, environment = shell
    script = re.sub(r"^source <\((.*)\)$", r"\1", command).replace("/backups/", f"{place}/")
    if WAITS.search(script) or FOR_A_SHELL.search(script):
        done = in_shell(script, place, environment)
    else:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(place)
        done = called(Path(environment["RECONCILER_HOME"]), monkeypatch, capsys)(*shlex.split(script)[1:])
    assert done.code in (0, 1, 124, 130), done.out + done.err
    assert "Traceback" not in done.err
    if done.code == 1:
        assert "error: " in done.err or command.startswith(("reconciler diff", "reconciler doctor")), done.err


def in_shell(script: str, place: Path, environment: dict[str, str]) -> Result:
    """What is printed until it ends, or until Ctrl-C."""
    seconds = FOLLOWED_SECONDS if WAITS.search(script) else ENDED_SECONDS
    with subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=place, env=environment, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            out, err = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGINT)
            out, err = running.communicate(timeout=60)
    return Result(running.returncode if running.returncode >= 0 else 128 - running.returncode, out, err)


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_command_has_an_example(name: str) -> None:
    assert any(f"reconciler {name}" in line for line in EXAMPLES)
