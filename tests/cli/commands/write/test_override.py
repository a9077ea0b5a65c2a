"""`override`: an operation for a sync window, with a reason and an end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

from .test_writing import committed, log, operations, template, watched

pytestmark = pytest.mark.processes

__all__ = ["committed", "template", "watched"]

WINDOW = """\
apiVersion: reconciler/v1alpha1
kind: SyncWindow
metadata: {name: office-hours}
spec: {kind: deny, schedule: "0 8 * * 1-5", duration: 10h}
"""
NAME = "override.syncwindow.office-hours"


@pytest.fixture
def with_window(cli: Cli, committed: Path, tmp_path: Path) -> Path:
    (tmp_path / "window.yaml").write_text(WINDOW)
    assert cli("apply", "-f", str(tmp_path / "window.yaml")).code == 0
    return committed


def test_it_needs_a_reason_and_ends_by_itself(cli: Cli, with_window: Path) -> None:
    refused = cli("override", "office-hours")
    assert (refused.code, log(with_window)) == (2, [])
    assert "say why, for the log: --reason" in refused.err
    done = cli("override", "office-hours", "--reason", "incident 12")
    assert done.out == "syncwindow.reconciler/office-hours overridden\n"
    made = operations(with_window)[NAME]
    ends = datetime.fromisoformat(made["until"]) - datetime.now(UTC)
    assert made["reason"] == "incident 12"
    assert 3500 < ends.total_seconds() <= 3600
    assert cli("undo", NAME).code == 0
    assert log(with_window)[1] == "Override syncwindow/office-hours: incident 12"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("deployment/tiny", "modeldeployment/tiny is no syncwindow"),
        ("office", 'syncwindows "office" not found'),
    ],
)
def test_only_windows_are_overridden(word: str, said: str, cli: Cli, with_window: Path) -> None:
    refused = cli("override", word, "--reason", "incident 12")
    assert (refused.code, log(with_window)) == (1, [])
    assert said in refused.err


def test_operations_that_a_window_names_are_refused_until_it_is_overridden(
    cli: Cli, committed: Path, tmp_path: Path
) -> None:
    always = 'schedule: "* * * * *", duration: 1h, deployments: [tiny], operations: [scale]'
    (tmp_path / "window.yaml").write_text(WINDOW.replace('schedule: "0 8 * * 1-5", duration: 10h', always))
    assert cli("apply", "-f", str(tmp_path / "window.yaml")).code == 0
    refused = cli("scale", "tiny", "--replicas=3", "--for=1h")
    assert (refused.code, log(committed)) == (1, [])
    assert "scale of modeldeployment/tiny is refused by sync window office-hours" in refused.err
    assert "to do it now, first: reconciler override office-hours --reason WHY" in refused.err
    assert cli("cordon", "node-a").code == 0, "which it does not name"
    assert cli("rollout", "restart", "tiny").code == 0
    assert cli("override", "office-hours", "--reason", "many visitors").code == 0
    assert cli("scale", "tiny", "--replicas=3", "--for=1h").code == 0
