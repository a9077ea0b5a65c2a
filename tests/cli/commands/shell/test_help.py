"""Help: the commands in groups, and what each one does."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from reconciler.cli.core.app import LISTED, UNCUT, reconciler
from reconciler.cli.core.groups import GROUPS
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("name", "summary"), [(name, text) for group in GROUPS.values() for name, (_, text) in group.items()]
)
def test_the_summary_in_the_list_is_the_command_s_own(name: str, summary: str) -> None:
    command = reconciler.get_command(click.Context(reconciler), name)
    assert command is not None
    assert summary == command.get_short_help_str(UNCUT)


def test_every_command_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(LISTED)
    assert len(set(LISTED)) == len(LISTED)


def test_help_has_kubectl_s_forms(cli: Cli) -> None:
    assert cli("help").out == cli("--help").out
    assert "Find faults:\n  incidents " in cli("help").out
    assert cli("help", "rollout", "undo").out == cli("rollout", "undo", "--help").out


def test_help_of_what_is_no_command_names_the_nearest(cli: Cli) -> None:
    assert 'unknown command "gte", did you mean "get"?' in cli("help", "gte").err
    assert '"reconciler get" has no commands of its own' in cli("help", "get", "nodes").err


@pytest.mark.parametrize("command", ["help", "describe md tiny", "rollout history md/tiny", "get all"])
def test_commands_that_people_wait_for_import_no_models(command: str) -> None:
    """pydantic and the kinds are most of what a command could take to start."""
    script = (
        "import sys; from reconciler.cli.core.app import reconciler\n"
        f"try: reconciler.main(['--home', '/nowhere', *{command.split()!r}], standalone_mode=False)\n"
        "except Exception: pass\n"
        "assert 'reconciler.cli.core.app' in sys.modules and 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)
