"""The lines and exit statuses of commands that write, as kubectl has them: one row for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands.write.test_writing import committed, template
from tests.cli.conftest import MANIFESTS

from .conftest import Cli

pytestmark = pytest.mark.processes

__all__ = ["committed", "template"]

TINY = "modeldeployment.reconciler/tiny"

ROWS: list[tuple[str, int, str]] = [
    ("apply -f {manifests} --dry-run=server", 0, f"{TINY} unchanged (server dry run)"),
    ("apply -R -f {manifests}", 0, f"{TINY} unchanged"),
    ("apply -f {manifests} --dry-run=no", 2, "'no' is not one of 'none', 'client', 'server'"),
    ("delete deployment tiny", 0, f"{TINY} deleted"),
    ("delete deploy/tiny --dry-run", 0, f"{TINY} deleted (dry run)"),
    ("delete deployment absent", 1, 'modeldeployments "absent" not found'),
    ("delete deployment absent --ignore-not-found", 0, ""),
    ("delete podz absent", 2, 'unknown kind "podz"'),
    ("scale deployment/tiny --replicas=2", 0, f"{TINY} scaled"),
    (
        "scale --replicas=2 deployment tiny --current-replicas=5",
        1,
        "expected replicas of tiny to be 5, was 1",
    ),
    ("scale deployment/tiny", 2, "Missing option '--replicas'"),
    ("cordon node-a", 0, "node/node-a cordoned"),
    ("uncordon node-a", 0, "node/node-a already uncordoned"),
    ("drain node-a --dry-run=client", 0, "node/node-a drained (dry run)"),
    ("node bootstrap node-a", 1, "node-a is the controller's own machine"),
    ("node reset node-a", 1, "node-a is the controller's own machine"),
    ("node bootstrap absent", 1, 'there is no Node "absent"; existing Nodes: node-a, node-b'),
    ("drain absent", 1, 'nodes "absent" not found'),
    ("edit deployment/absent", 1, 'modeldeployments "absent" not found'),
    ("rollout restart deployment/tiny", 0, f"{TINY} restarted"),
    ("rollout restart deployment/tiny -o name", 0, TINY),
    ("rollout undo deployment/tiny", 1, "so there is no earlier version to go back to"),
    ("rollout undo deployment/tiny --to-revision=0000000", 1, "0000000 is not a revision of main"),
    ("rollout history deployment/tiny", 0, "Start the cluster"),
    ("rollout status deployment/tiny", 1, "no controller runs in"),
    ("rollout pause deployment/tiny", 0, "modeldeployment.reconciler/tiny paused"),
    ("rollout resume deployment/tiny", 0, "modeldeployment.reconciler/tiny"),
]


@pytest.mark.parametrize(("line", "code", "text"), ROWS)
def test_a_command_says_and_exits_as_kubectl(
    line: str, code: int, text: str, cli: Cli, committed: Path
) -> None:
    result = cli(*(word.format(manifests=MANIFESTS) for word in line.split()))
    assert result.code == code
    assert text in (result.err if code else result.out)
