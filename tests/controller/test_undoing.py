"""What takes back an operation, as long as it has an effect."""

from __future__ import annotations

import pytest

from reconciler.controller.admin.undoing import of_operations
from reconciler.resources.operation import Operation
from reconciler.source.git.commit_log import ADDED, REMOVED, Entry, Touched
from reconciler.source.git.history import Commit
from reconciler.state import Desired
from reconciler.state.operations import Effect, Standing
from tests.properties.test_operations import operation

COMMIT = Commit("0" * 40, 0, "Ada", "a@example.org", "Operate", ())
MANIFEST = {
    "apiVersion": "reconciler/v1alpha1",
    "kind": "Model",
    "metadata": {"name": "tiny"},
    "spec": {"source": {"path": "tiny"}},
}
END = "2027-01-01T00:00:00Z"


def undone(said: Operation, action: str, present: bool) -> list[str]:
    effects = (Effect(said, Standing.IN_FORCE),) if present else ()
    entry = Entry(COMMIT, (Touched(("Operation", said.metadata.name), action),), 0)
    return [way.command for way in of_operations(Desired("r", effects=effects), entry)]


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (operation("cordon", "Node", "node-a"), "uncordon node-a"),
        (operation("drain", "Node", "node-a"), "uncordon node-a"),
        (operation("suspend", "Cluster", "main"), "resume --all"),
        (operation("suspend", "Model", "tiny", manifest=MANIFEST), "resume model/tiny"),
        (operation("stop", "Cluster", "main"), "start"),
        (operation("reboot", "Node", "node-a", boot="one"), "undo reboot.node.node-a"),
        (operation("scale", "ModelDeployment", "tiny", replicas=2), "undo scale.modeldeployment.tiny"),
        (operation("pause", "ModelDeployment", "tiny"), "undo pause.modeldeployment.tiny"),
        (operation("resume", "ModelDeployment", "tiny"), "undo resume.modeldeployment.tiny"),
        (
            operation("override", "SyncWindow", "nights", reason="incident 12", until=END),
            "undo override.syncwindow.nights",
        ),
    ],
    ids=lambda each: each.metadata.name if isinstance(each, Operation) else "",
)
def test_every_operation_that_lasts_is_taken_back_by_a_command(said: Operation, command: str) -> None:
    assert undone(said, ADDED, present=True) == [f"reconciler {command}"]
    assert undone(said, ADDED, present=False) == [], "it has ended"


def test_what_was_undone_is_done_again_by_its_command() -> None:
    cordon = operation("cordon", "Node", "node-a")
    assert undone(cordon, REMOVED, present=False) == ["reconciler cordon node-a"]
    assert undone(cordon, REMOVED, present=True) == []


@pytest.mark.parametrize(
    ("said", "act"),
    [
        (operation("cordon", "Node", "node-a"), ("uncordon", "Node", "node-a")),
        (operation("suspend", "Cluster", "main"), ("resume", "Cluster", "main")),
        (operation("stop", "Cluster", "main"), ("undo", "Operation", "stop.cluster.main")),
        (
            operation("scale", "ModelDeployment", "tiny", replicas=2),
            ("undo", "Operation", "scale.modeldeployment.tiny"),
        ),
    ],
    ids=lambda each: each.metadata.name if isinstance(each, Operation) else "",
)
def test_what_takes_an_operation_back_is_an_act_of_the_console_too(
    said: Operation, act: tuple[str, str, str]
) -> None:
    entry = Entry(COMMIT, (Touched(("Operation", said.metadata.name), ADDED),), 0)
    (way,) = of_operations(Desired("r", effects=(Effect(said, Standing.IN_FORCE),)), entry)
    assert ((way.verb, way.kind, way.name), way.is_act) == (act, True)
