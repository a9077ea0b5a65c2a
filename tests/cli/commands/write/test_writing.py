"""`delete`, `scale`, `cordon`, `uncordon` and `drain`: commits to a real repository, then what the controller says."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from reconciler.errors import Refused
from tests.cli import bodies
from tests.cli.conftest import MANIFESTS, Cli, Controller, start_cluster

from .test_manifests import ROOT, git

pytestmark = pytest.mark.processes

NODES = str(ROOT / "manifests" / "nodes.yaml")


def head(home: Path) -> str:
    return git(home, "rev-parse", "main").strip()


def subjects(home: Path) -> list[str]:
    return git(home, "log", "--format=%s", "main").splitlines()


def operations(home: Path) -> dict[str, dict[str, Any]]:
    """The spec of each operation by its name."""
    files = git(home, "ls-tree", "--name-only", "operations").split()
    bodies = [yaml.safe_load(git(home, "show", f"operations:{file}")) for file in files]
    return {body["metadata"]["name"]: body["spec"] for body in bodies}


def log(home: Path) -> list[str]:
    """The subjects of the operations' commits, newest first; empty before the first."""
    branches = git(home, "for-each-ref", "--format=%(refname:short)").split()
    return git(home, "log", "--format=%s", "operations").splitlines() if "operations" in branches else []


def newest(home: Path) -> str:
    """The newest commit of the operations; empty before the first."""
    return git(home, "for-each-ref", "--format=%(objectname)", "refs/heads/operations").strip()


def changed_lines(home: Path) -> list[str]:
    """Lines that the newest commit takes away or adds."""
    lines = git(home, "show", "--format=", "--unified=0", "main").splitlines()
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose repository has the quickstart's manifests, for copying."""
    made = tmp_path_factory.mktemp("template")
    start_cluster(made)
    return made


@pytest.fixture
def committed(template: Path, home: Path) -> Path:
    """The quickstart's manifests in a repository; no controller runs."""
    shutil.copytree(template, home, dirs_exist_ok=True)
    return home


@pytest.fixture
def watched(controller: Controller, committed: Path, home: Path) -> Controller:
    """The same with a controller that reads each commit at once."""
    at_rest = controller.answers["status"]
    controller.answers["status"] = lambda _: {
        **at_rest,
        "revision": head(home),
        "operations": newest(home),
    }
    return controller


# --- delete ----------------------------------------------------------------------------------------


def test_objects_are_deleted_by_name_and_the_rest_of_their_file_stays(cli: Cli, committed: Path) -> None:
    result = cli("delete", "deployment", "tiny")
    assert (result.code, result.out) == (0, "modeldeployment.reconciler/tiny deleted\n")
    assert result.err == "note: the controller is not running; start it with: reconciler up\n"
    assert subjects(committed)[0] == "Delete modeldeployment/tiny"
    assert "kind: Model\n" in git(committed, "show", "main:tiny.yaml")
    assert cli("delete", "node/node-a", "no/node-b").out.splitlines() == [
        "node.reconciler/node-a deleted",
        "node.reconciler/node-b deleted",
    ]


def test_what_is_there_is_deleted_and_what_is_not_is_an_error(cli: Cli, committed: Path) -> None:
    result = cli("delete", "node", "node-b", "node-x")
    assert (result.code, result.out) == (1, "node.reconciler/node-b deleted\n")
    assert result.err.endswith('error: nodes "node-x" not found; did you mean "node-a"?\n')
    before = head(committed)
    assert cli("delete", "node", "node-x", "--ignore-not-found").code == 0
    assert head(committed) == before


def test_objects_are_deleted_as_files_name_them(cli: Cli, committed: Path) -> None:
    text = Path(NODES).read_text()
    assert len(cli("delete", "-f", "-", stdin=text).out.splitlines()) == 2
    assert cli("delete", "-f", NODES).code == 1
    assert cli("delete", "-R", "-f", NODES, "--ignore-not-found").code == 0


def test_objects_are_deleted_by_label_and_all_of_a_kind(cli: Cli, committed: Path, tmp_path: Path) -> None:
    (tmp_path / "n.yaml").write_text(
        "apiVersion: reconciler/v1alpha1\nkind: Node\nmetadata: {name: old, labels: {pool: old}}\n"
        "spec: {local: {}}\n"
    )
    cli("apply", "-f", "n.yaml")
    assert cli("delete", "nodes,models", "-l", "pool=old").out == "node.reconciler/old deleted\n"
    assert len(cli("delete", "nodes", "--all").out.splitlines()) == 2
    nothing = cli("delete", "nodes", "--all")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No resources found\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "expected KIND NAME..., KIND/NAME..., -f FILE, or KIND with -l SELECTOR or --all"),
        (("node",), "node: a name is missing"),
        (("node", "a", "model/b"), '"node" is not KIND/NAME; use KIND/NAME for all'),
        (("node/a", "b"), '"b" is not KIND/NAME; use KIND/NAME for all'),
        (("node", "a", "-f", "x.yaml"), "-f already selects the objects"),
        (("node", "a", "--all"), "-l and --all need a kind and no names"),
        (("ranks", "--all"), "ranks have no manifests"),
        (("nodes", "-l", "a in b"), "is not a label selector"),
        (("node", "a", "--timeout", "5"), '"5" is not a duration; expected one such as 30s, 5m'),
        (("node", "a", "--dry-run=maybe"), "'maybe' is not one of"),
    ],
)
def test_wrong_usage_is_reported(arguments: tuple[str, ...], text: str, cli: Cli, home: Path) -> None:
    result = cli("delete", *arguments)
    assert result.code == 2
    assert text in result.err
    assert not home.exists()


def test_without_a_repository_there_is_nothing_to_delete_or_change(cli: Cli, home: Path) -> None:
    assert 'nodes "a" not found; list them with: reconciler get nodes' in cli("delete", "node", "a").err
    assert cli("delete", "node", "a", "--ignore-not-found").code == 0
    assert "there is no cluster repository in" in cli("cordon", "a").err
    assert not home.exists()


def test_deleting_waits_until_nothing_of_the_object_is_left(cli: Cli, watched: Controller) -> None:
    leaving = bodies.deployment()
    leaving["status"]["conditions"] = bodies.conditions(False, "waiting for the end of rank 0 on node-a")
    answers = iter([[leaving], [leaving], []])
    watched.answers["get"] = lambda _: {"revision": "x", "items": next(answers)}
    assert cli("delete", "deployment/tiny").code == 0
    assert next(answers, None) is None
    watched.answers["get"] = lambda _: {"revision": "x", "items": [bodies.node("node-a")]}
    assert cli("delete", "node/node-a", "--no-wait").code == 0


def test_a_deletion_that_takes_too_long_says_what_is_left(cli: Cli, watched: Controller) -> None:
    leaving = bodies.deployment()
    leaving["status"]["conditions"] = bodies.conditions(False, "waiting for the end of rank 0 on node-a")
    watched.answers["get"] = lambda _: {"revision": "x", "items": [leaving]}
    result = cli("delete", "deployment/tiny", "--timeout=300ms")
    assert (result.code, result.out) == (1, "modeldeployment.reconciler/tiny deleted\n")
    assert result.err.endswith("error: timed out after 0.3 s: waiting for the end of rank 0 on node-a\n")


@pytest.mark.parametrize("wait", ["--wait", "--no-wait"])
def test_a_deletion_that_is_held_is_an_error_that_says_what_to_do(
    wait: str, cli: Cli, watched: Controller, home: Path
) -> None:
    before, answer = head(home), watched.answers["status"](None)

    def status(_: Any) -> dict[str, Any]:
        text = "revision x is held; to remove them: reconciler approve x"
        held = {"revision": head(home), "text": text} if head(home) != before else None
        return {**answer, "revision": before, "held": held}

    watched.answers["status"] = status
    result = cli("delete", "nodes", "--all", wait)
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith(
        "revision x is held; to remove them: reconciler approve x; to take it back: reconciler rollout undo node/node-a;"
        " reconciler rollout undo node/node-b\n"
    )


GATES = {"window": "heldChanges", "approval": "held", "suspension": "suspended"}
CHANGING = {
    "apply -f nodes.yaml": "node.reconciler/node-b configured",
    "patch node node-b -p {spec: {unschedulable: true}}": "node.reconciler/node-b patched",
    "label node/node-b room=2": "node.reconciler/node-b labeled",
    "annotate node/node-b room=2": "node.reconciler/node-b annotated",
    "scale deployment/tiny --replicas=2": "modeldeployment.reconciler/tiny scaled",
    "key create ada": "",
}


def gated(watched: Controller, home: Path, gate: str, object: str) -> str:
    """Let a gate keep every later commit out, of which a window holds the change of one object. Returns what is said."""
    before, answer = head(home), watched.answers["status"](None)

    def status(_: Any) -> Any:
        if head(home) == before:
            return answer
        changes = [{"object": object, "window": "nights", "until": None}]
        found = {"revision": head(home), "text": f"{object} waits", "changes": changes}
        in_force = head(home) if gate == "window" else before
        return {**answer, "revision": in_force, GATES[gate]: found}

    watched.answers["status"] = status
    return f"{object} waits"


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("line", CHANGING)
def test_a_change_that_is_kept_out_is_committed_once_and_says_so(
    line: str, gate: str, cli: Cli, watched: Controller, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "nodes.yaml").write_text(
        Path(NODES).read_text().replace("name: node-b", "name: node-b\n  labels: {room: c}")
    )
    text, before = gated(watched, home, gate, "node/node-b"), subjects(home)
    command, _, patch = line.partition(" -p ")
    result = cli(*command.split(), *(("-p", patch) if patch else ()))
    assert result.code == 0, result.err
    assert CHANGING[line] in result.out
    assert len(subjects(home)) == len(before) + 1
    assert f"note: {text}" in result.err


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("wait", ["--wait", "--no-wait"])
def test_a_deletion_that_is_kept_out_deletes_nothing_and_says_how_to_take_it_back(
    wait: str, gate: str, cli: Cli, watched: Controller, home: Path
) -> None:
    text, before = gated(watched, home, gate, "node/node-b"), head(home)
    result = cli("delete", "node/node-b", wait)
    assert (result.code, result.out) == (1, "")
    assert (
        f"nothing is deleted yet: the commit {head(home)[:10]} is there, and comes into force" in result.err
    )
    assert result.err.endswith(f"{text}; to take it back: reconciler rollout undo node/node-b\n")
    assert cli("rollout", "undo", "node/node-b").code == 0
    assert git(home, "diff", "--stat", before, "main") == ""


def test_what_a_window_holds_of_others_is_no_matter_of_a_deletion(
    cli: Cli, watched: Controller, home: Path
) -> None:
    gated(watched, home, "window", "modeldeployment/tiny")
    watched.answers["get"] = lambda _: {"revision": "x", "items": []}
    result = cli("delete", "node/node-b")
    assert (result.code, result.out) == (0, "node.reconciler/node-b deleted\n")


# --- every change --------------------------------------------------------------------------------


def test_a_change_is_known_to_the_controller_before_the_next_command(
    cli: Cli, watched: Controller, home: Path
) -> None:
    before, answer, looks = head(home), watched.answers["status"](None), list[str]()

    def status(_: Any) -> dict[str, Any]:
        looks.append(head(home))
        late = looks.count(head(home)) < 4 and head(home) != before
        return {**answer, "revision": before if late else head(home)}

    watched.answers["status"] = status
    assert cli("scale", "deployment/tiny", "--replicas=2").err == ""
    assert looks.count(head(home)) >= 4


def test_a_change_that_is_kept_out_says_so(cli: Cli, watched: Controller, home: Path) -> None:
    before, answer = head(home), watched.answers["status"](None)
    watched.answers["status"] = lambda _: {**answer, "revision": before, "rejection": "a.yaml:1:1: wrong"}
    result = cli("scale", "tiny", "--replicas=2")
    assert (result.code, result.out) == (0, "modeldeployment.reconciler/tiny scaled\n")
    assert result.err == "note: the newest revision is not in force: a.yaml:1:1: wrong\n"
    watched.answers["status"] = {**answer, "operationsRejection": "x.yaml:1:1: wrong"}
    cordoned = cli("cordon", "node-a")
    assert (cordoned.code, cordoned.out) == (0, "node/node-a cordoned\n")
    assert cordoned.err == "note: the newest operations are not in force: x.yaml:1:1: wrong\n"


def test_a_controller_that_reads_no_operations_is_to_be_restarted_first(
    cli: Cli, watched: Controller, home: Path
) -> None:
    answer = watched.answers["status"](None)
    del answer["operations"]
    watched.answers["status"] = answer
    result = cli("cordon", "node-a")
    assert (result.code, result.out, log(home)) == (1, "", [])
    assert (
        "the running controller is an older one (0.1.0) that reads no operations; restart it first"
        in result.err
    )


# --- scale -----------------------------------------------------------------------------------------


def test_scaling_changes_one_line(cli: Cli, committed: Path) -> None:
    assert cli("scale", "deployment/tiny", "--replicas=3").out == "modeldeployment.reconciler/tiny scaled\n"
    assert subjects(committed)[0] == "Scale modeldeployment/tiny to 3"
    assert changed_lines(committed) == ["-  replicas: 1", "+  replicas: 3"]


def test_scaling_to_what_is_there_makes_no_commit(cli: Cli, committed: Path) -> None:
    before = head(committed)
    assert (
        cli("scale", "deployment", "tiny", "--replicas=1").out == "modeldeployment.reconciler/tiny scaled\n"
    )
    assert head(committed) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("deployment/tiny", "--current-replicas=2"), "expected replicas of tiny to be 2, was 1"),
        (("deployment/big",), 'modeldeployments "big" not found'),
        (("node/node-a",), "node/node-a has no replicas; only modeldeployments do"),
        (("deployments", "-l", "no=where"), "no objects are selected"),
    ],
)
def test_a_scaling_that_cannot_be_changes_nothing(
    arguments: tuple[str, ...], text: str, cli: Cli, committed: Path
) -> None:
    before = head(committed)
    result = cli("scale", *arguments, "--replicas=2")
    assert (result.code, result.out) == (1, "")
    assert text in result.err
    assert head(committed) == before


# --- cordon, uncordon ------------------------------------------------------------------------------


def test_cordon_and_uncordon_are_operations_that_leave_main_as_it_is(cli: Cli, committed: Path) -> None:
    before = head(committed)
    assert cli("cordon", "node-b").out == "node/node-b cordoned\n"
    assert operations(committed)["cordon.node.node-b"]["target"] == {"kind": "Node", "name": "node-b"}
    assert cli("cordon", "node/node-b", "node-a").out.splitlines() == [
        "node/node-b already cordoned",
        "node/node-a cordoned",
    ]
    assert cli("uncordon", "node-a", "node-b").out.splitlines() == [
        "node/node-a uncordoned",
        "node/node-b uncordoned",
    ]
    assert (head(committed), operations(committed)) == (before, {})
    assert cli("uncordon", "node-a").out == "node/node-a already uncordoned\n"
    assert log(committed) == ["Uncordon node/node-a, node/node-b", "Cordon node/node-a", "Cordon node/node-b"]


def test_who_asks_again_with_an_end_or_a_reason_changes_the_operation(cli: Cli, committed: Path) -> None:
    cli("cordon", "node-a", "--reason", "the fan is loud", "--for", "2h")
    first = operations(committed)["cordon.node.node-a"]
    assert first["reason"] == "the fan is loud"
    assert cli("cordon", "node-a").out == "node/node-a already cordoned\n"
    assert operations(committed)["cordon.node.node-a"] == first
    assert cli("cordon", "node-a", "--until", "2999-01-01T00:00:00Z").out == "node/node-a cordoned\n"
    assert operations(committed)["cordon.node.node-a"]["until"] == "2999-01-01T00:00:00Z"
    assert log(committed) == ["Cordon node/node-a", "Cordon node/node-a: the fan is loud"]
    assert git(committed, "log", "-1", "--format=%b", "operations").strip() == "Until: 2999-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--for", "1h", "--until", "2999-01-01T00:00:00Z"), "use one of them"),
        (("--until", "2001-01-01T00:00:00Z"), "the end must be later than now"),
        (("--for", "soon"), '"soon" is not a duration'),
    ],
)
def test_an_end_that_cannot_be_is_wrong_usage(
    arguments: tuple[str, ...], text: str, cli: Cli, committed: Path
) -> None:
    result = cli("cordon", "node-a", *arguments)
    assert (result.code, log(committed)) == (2, [])
    assert text in result.err


def test_an_end_after_some_time_is_not_before_that(
    cli: Cli, committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.cli.core.operations.time", SimpleNamespace(time=lambda: 1e9 + 0.9))
    cli("cordon", "node-a", "--for", "1s")
    assert operations(committed)["cordon.node.node-a"]["until"] == "2001-09-09T01:46:42Z"


def test_what_has_expired_is_removed_by_the_next_commit_which_says_so(
    cli: Cli, committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("cordon", "node-a", "--for", "1h")
    later = time.time() + 3601.0
    monkeypatch.setattr("reconciler.cli.core.operations.time", SimpleNamespace(time=lambda: later))
    assert cli("cordon", "node-b").out == "node/node-b cordoned\n"
    assert list(operations(committed)) == ["cordon.node.node-b"]
    assert "Expired: cordon.node.node-a" in git(committed, "log", "-1", "--format=%b", "operations")


def test_uncordon_takes_back_what_an_earlier_version_wrote_into_the_manifest(
    cli: Cli, committed: Path, tmp_path: Path
) -> None:
    before = git(committed, "show", "main:nodes.yaml")
    drained = before.replace(
        "name: node-a\nspec:\n", "name: node-a\nspec:\n  unschedulable: true\n  drain: true\n"
    )
    assert drained != before
    (tmp_path / "n.yaml").write_text(drained)
    assert cli("apply", "-f", "n.yaml").code == 0
    assert cli("uncordon", "node-a", "node-b").out.splitlines() == [
        "node/node-a uncordoned",
        "node/node-b already uncordoned",
    ]
    assert "drain" not in git(committed, "show", "main:nodes.yaml")
    assert subjects(committed)[0] == "Uncordon node/node-a"


@pytest.mark.parametrize("command", ["cordon", "uncordon", "drain"])
def test_nodes_must_be_there(command: str, cli: Cli, committed: Path) -> None:
    assert 'nodes "node-x" not found' in cli(command, "node-a", "node-x").err
    assert "no nodes are selected" in cli(command, "-l", "pool=x").err
    assert cli(command).code == 2
    assert len(subjects(committed)) == 1


@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"unschedulable": True}, "Ready,SchedulingDisabled"),
        ({"unschedulable": True, "drain": True}, "Ready,SchedulingDisabled,Drained"),
    ],
)
def test_the_list_of_nodes_shows_it(
    spec: dict[str, bool], state: str, cli: Cli, controller: Controller
) -> None:
    item = bodies.node("node-a")
    item["spec"].update(spec)
    controller.answers["get"] = {"revision": "x", "version": "1", "items": [item]}
    assert cli("get", "nodes", "--no-headers").out.split()[-1] == state


# --- drain -----------------------------------------------------------------------------------------


def future(**fields: Any) -> dict[str, Any]:
    replica = {"object": "modeldeployment/tiny", "replica": 0, "nodes": ["node-a", "node-b"], "text": ""}
    plan: dict[str, Any] = {"steps": [], "waiting": [], "refused": []}
    replicas = [{**replica, "moves": None, "ends": False, **fields}]
    return {"removes": [], "of": 5, "held": False, "plan": plan, "replicas": replicas}


def test_draining_says_what_moves_and_waits_until_the_node_is_empty(
    cli: Cli, watched: Controller, home: Path
) -> None:
    watched.answers["foresee"] = future(moves=["node-a"])
    left = iter([[bodies.rank(0), bodies.rank(1)], [bodies.rank(1)], [bodies.rank(0)]])
    watched.answers["get"] = lambda _: {"revision": "x", "items": next(left)}
    result = cli("drain", "node-b")
    assert (result.code, result.err) == (0, "")
    assert [line for line in result.out.splitlines() if "still on" not in line] == [
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "node/node-b cordoned",
        "evicting rank 1 of tiny/0 from node-b",
        "node/node-b drained",
    ]
    assert operations(home)["drain.node.node-b"]["verb"] == "drain"
    (request,) = [message for message in watched.received if message.TYPE == "foresee"]
    assert list(request.operations) == ["drain.node.node-b.yaml"]


def test_draining_refuses_to_stop_what_is_served_unless_forced(
    cli: Cli, watched: Controller, home: Path
) -> None:
    watched.answers["foresee"] = future(ends=True, text="tiny/0: needs 2 nodes, 1 can be used")
    refused = cli("drain", "node-b")
    assert (refused.code, refused.out, log(home)) == (1, "", [])
    assert "modeldeployment/tiny, replica 0: tiny/0: needs 2 nodes, 1 can be used\n" in refused.err
    assert "--force" in refused.err
    watched.answers["get"] = lambda _: {"revision": "x", "items": []}
    forced = cli("drain", "node-b", "--force")
    assert (forced.code, forced.out.splitlines()[-1]) == (0, "node/node-b drained")
    assert log(home) == ["Drain node/node-b"]


def test_a_drain_that_takes_too_long_says_what_is_left(cli: Cli, watched: Controller) -> None:
    watched.answers["foresee"] = future(moves=["node-a"])
    result = cli("drain", "node-b", "--timeout=300ms")
    assert result.code == 1
    assert "evicting rank 1 of tiny/0 from node-b" in result.out.splitlines()
    assert "node/node-b drained" not in result.out
    assert "error: timed out after 0.3 s: 1 rank still on node-b\n" in result.err


def test_a_drain_does_not_wait_for_a_rank_that_nothing_ends_and_says_so(
    cli: Cli, watched: Controller
) -> None:
    watched.answers["foresee"] = future(moves=["node-a"])
    held = {**bodies.rank(1), "killed": True, "unkillable": True}
    watched.answers["get"] = lambda _: {"revision": "x", "items": [held]}
    result = cli("drain", "node-b")
    assert (result.code, result.out.splitlines()[-1]) == (0, "node/node-b drained")
    assert result.out.count("SIGKILL does not end a rank on node-b") == 1


def test_looking_ahead_at_a_drain_commits_nothing(cli: Cli, watched: Controller, home: Path) -> None:
    watched.answers["foresee"] = future(moves=["node-a"])
    assert cli("drain", "node-b", "--dry-run").out.splitlines() == [
        "modeldeployment/tiny, replica 0: moves from node-a, node-b to node-a",
        "node/node-b cordoned (dry run)",
        "node/node-b drained (dry run)",
    ]
    assert log(home) == []


def test_without_a_controller_a_drain_is_committed_and_said_to_begin_later(cli: Cli, committed: Path) -> None:
    result = cli("drain", "node-b")
    assert result.code == 1
    assert "the drain is committed, and begins once a controller runs" in result.err
    assert log(committed) == ["Drain node/node-b"]


# --- the whole cluster -----------------------------------------------------------------------------


def test_stop_is_one_operation_and_start_ends_it(cli: Cli, watched: Controller, home: Path) -> None:
    before = head(home)
    left = iter([[bodies.rank(0), bodies.rank(1)], [bodies.rank(1)], []])
    watched.answers["get"] = lambda _: {"revision": "x", "items": next(left, [])}
    stopped = cli("stop", "--reason", "the rack moves")
    assert (stopped.code, stopped.err) == (0, "")
    assert "evicting rank 1 of tiny/0 from node-b" in stopped.out.splitlines()
    assert stopped.out.splitlines()[-1].startswith("no rank runs any more")
    assert list(operations(home)) == ["stop.cluster.main"]
    again = cli("stop")
    assert again.code == 0
    assert again.out.splitlines()[-1] == "no rank runs any more; to serve again: reconciler start"
    started = cli("start")
    assert (started.code, started.err) == (0, "")
    assert (operations(home), head(home)) == ({}, before)
    assert log(home) == [
        "Start the cluster: node/node-a, node/node-b",
        "Stop the cluster: node/node-a, node/node-b: the rack moves",
    ]
    refused = cli("start")
    assert refused.code == 1
    assert "no node was drained by reconciler stop" in refused.err


def test_uncordon_says_that_the_cluster_is_stopped(cli: Cli, watched: Controller) -> None:
    watched.answers["get"] = lambda _: {"revision": "x", "items": []}
    cli("stop")
    assert cli("uncordon", "node-a").err == "note: the cluster is stopped; to serve again: reconciler start\n"


def test_start_takes_back_a_stop_that_an_earlier_version_wrote_into_the_manifests(
    cli: Cli, committed: Path, tmp_path: Path
) -> None:
    text = git(committed, "show", "main:nodes.yaml")
    stopped = text
    for name, mark in (("node-a", "cordoned"), ("node-b", "in-use")):
        stopped = stopped.replace(
            f"  name: {name}\nspec:\n",
            f"  name: {name}\n  labels: {{reconciler/stopped: {mark}}}\nspec:\n  unschedulable: true\n  drain: true\n",
        )
    (tmp_path / "n.yaml").write_text(stopped)
    assert cli("apply", "-f", "n.yaml").code == 0
    assert cli("start").code == 0
    nodes = {
        each["metadata"]["name"]: each
        for each in yaml.safe_load_all(git(committed, "show", "main:nodes.yaml"))
    }
    assert nodes["node-a"]["spec"]["unschedulable"] is True, "it was cordoned before the stop"
    assert "unschedulable" not in nodes["node-b"]["spec"]
    assert not any("drain" in node["spec"] or node["metadata"].get("labels") for node in nodes.values())


# --- what all of them share ------------------------------------------------------------------------

WRITES: list[tuple[str, ...]] = [
    ("delete", "deployment", "tiny"),
    ("scale", "deployment/tiny", "--replicas=2"),
    ("cordon", "node-a"),
    ("drain", "node-a"),
    ("stop",),
    ("apply", "-f", NODES),
    ("rollout", "restart", "deployment/tiny"),
    ("scale", "tiny", "--replicas=2", "--for=1h"),
    ("suspend", "tiny"),
]
OTHER_WRITES: list[tuple[str, ...]] = [("edit", "node/node-a"), ("rollout", "undo", "node/node-a")]


@pytest.mark.parametrize("write", WRITES + OTHER_WRITES)
def test_a_watched_folder_is_not_written_to(write: tuple[str, ...], cli: Cli, watched: Controller) -> None:
    answer = {**watched.answers["status"](None), "source": "directory /home/me/manifests"}
    watched.answers["status"] = answer
    result = cli(*write)
    assert (result.code, result.out) == (1, "")
    assert "reads directory /home/me/manifests: edit the files there" in result.err


@pytest.mark.parametrize("mode", ["client", "server"])
@pytest.mark.parametrize("write", WRITES)
def test_looking_ahead_commits_nothing(
    write: tuple[str, ...], mode: str, cli: Cli, watched: Controller, home: Path
) -> None:
    watched.answers["foresee"] = future(moves=["node-b"])
    before = head(home), newest(home)
    result = cli(*write, f"--dry-run={mode}")
    assert result.code == 0
    ending = " (dry run)" if mode == "client" else " (server dry run)"
    assert all(line.endswith(ending) or "moves" in line for line in result.out.splitlines())
    assert (head(home), newest(home)) == before


def test_a_bare_dry_run_takes_no_value_from_the_next_word(cli: Cli, committed: Path) -> None:
    assert cli("delete", "--dry-run", "node", "node-a").out == "node.reconciler/node-a deleted (dry run)\n"


def test_a_server_dry_run_says_what_would_be_held_and_what_would_be_done(
    cli: Cli, watched: Controller
) -> None:
    watched.answers["foresee"] = {**future(), "held": True, "removes": ["node/node-a", "node/node-b"]}
    held = cli("delete", "nodes", "--all", "--dry-run=server")
    assert "would be held: it removes 2 of 5 objects (node/node-a, node/node-b)" in held.err
    refused = [{"object": "modeldeployment/elsewhere", "text": "needs 2 nodes"}] * 2
    plan = {"steps": [{"text": "stop rank 0"}], "waiting": [], "refused": refused}
    watched.answers["foresee"] = {**future(), "plan": plan}
    preview = cli("apply", "-f", MANIFESTS, "--dry-run=server")
    assert (preview.code, preview.err) == (0, "note: would stop rank 0\nnote: would refuse: needs 2 nodes\n")
    refused[0]["object"] = "modeldeployment/tiny"
    assert cli("apply", "-f", MANIFESTS, "--dry-run=server").code == 1


def test_a_controller_that_refuses_to_look_ahead_is_heard(cli: Cli, watched: Controller) -> None:
    watched.answers["foresee"] = Refused("Invalid", "a.yaml:1:1: no")
    assert "a.yaml:1:1: no" in cli("drain", "node-a").err


def test_json_and_names_instead_of_lines(cli: Cli, committed: Path) -> None:
    body = json.loads(cli("scale", "deployment/tiny", "--replicas=2", "-o", "json").out)
    assert body == {
        "revision": head(committed),
        "dryRun": False,
        "objects": [{"kind": "ModelDeployment", "name": "tiny", "action": "configured"}],
    }
    assert cli("cordon", "node-a", "-o", "name").out == "node.reconciler/node-a\n"


def test_the_author_is_whom_git_names_and_the_message_what_is_given(
    cli: Cli, committed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")
    cli("cordon", "node-a", "-m", "Repair the fan of node-a")
    assert git(committed, "log", "-1", "--format=%an <%ae> %s", "operations") == (
        "Ada <ada@example.org> Cordon node/node-a: Repair the fan of node-a\n"
    )
    assert operations(committed)["cordon.node.node-a"]["by"] == "Ada <ada@example.org>"
    cli("scale", "tiny", "--replicas=2", "-m", "More visitors")
    assert (
        git(committed, "log", "-1", "--format=%an <%ae> %s", "main")
        == "Ada <ada@example.org> More visitors\n"
    )


@pytest.mark.parametrize("command", ["apply", "validate", "diff", "delete"])
def test_urls_are_refused_with_what_to_do(command: str, cli: Cli, committed: Path) -> None:
    result = cli(command, "-f", "https://example.org/a.yaml")
    assert result.code == (2 if command == "diff" else 1)
    assert (
        "manifests are not read from URLs; download it first: curl -fsSLO https://example.org" in result.err
    )
