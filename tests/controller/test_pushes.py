"""Pushes with plain git to a cluster whose controller runs: each ends with the right answer on the pusher's screen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from reconciler.cli.core.client import ask
from reconciler.errors import Refused
from reconciler.wire.admin import JudgePush, ShowStatus
from tests.cli.live import API, Live, live, wait_for
from tests.source.conftest import Person, clone_of

pytestmark = pytest.mark.second_tier
COLUMNS = 100
DEPLOYMENT = API + "kind: ModelDeployment\nmetadata: {name: %s}\nspec: {model: %s}\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        yield made


@pytest.fixture
def ada(cluster: Live) -> Iterator[Person]:
    """Somebody with a clone of the newest commit."""
    with clone_of(cluster.home / "cluster.git") as person:
        yield person


def head(cluster: Live) -> str:
    revision: str = ask(cluster.home / "controller.sock", ShowStatus())["revision"]
    return revision


def said(output: list[str]) -> str:
    """What a push printed, its broken lines joined again."""
    assert all(len(f"remote: {line}") <= COLUMNS for line in output), output
    return " ".join(line.strip() for line in output)


def test_a_name_of_nothing_is_refused_with_the_nearest_one(cluster: Live, ada: Person) -> None:
    ada.commits(DEPLOYMENT % ("more", "tinny"), "more.yaml")
    status, output = ada.pushes()
    assert status == 1
    assert 'more.yaml:4:15: spec.model: there is no Model "tinny"; did you mean "tiny"?' in said(output)
    assert output[-1] == "reconciler: main stays as it was"


def test_more_nodes_than_there_are_is_a_warning_with_what_would_do(cluster: Live, ada: Person) -> None:
    text = (DEPLOYMENT % ("wide", "tiny")).replace("tiny}", "tiny, parallelism: {nodes: 5}}")
    ada.commits(text, "wide.yaml")
    status, output = ada.pushes("-o", "plan", "origin", "HEAD:main")
    assert status == 1, "only the plan was asked for"
    assert (
        "modeldeployment/wide: needs 5 nodes, 1 can be used; add Nodes or lower spec.parallelism.nodes to 1"
        in said(output)
    )
    assert output[-1] == "reconciler: nothing was changed: only the plan was asked for"


def test_what_would_remove_much_is_held_and_the_command_shown(cluster: Live, ada: Person) -> None:
    for file in sorted(ada.clone.glob("*.yaml"))[-3:]:
        ada.git("rm", "--quiet", file.name)
    ada.git("commit", "--quiet", "--message", "Remove much")
    status, output = ada.pushes("-o", "plan", "origin", "HEAD:main")
    revision = ada.git("rev-parse", "HEAD")[1].strip()
    assert status == 1
    assert "reconciler: held: it would remove 3 of 5 objects" in said(output)
    assert f"reconciler approve {revision[:10]}" in said(output)


def test_what_serves_is_removed_only_where_somebody_says_so(cluster: Live, ada: Person) -> None:
    ada.git("rm", "--quiet", "gateway-main.yaml")
    ada.git("commit", "--quiet", "--message", "Tidy up")
    status, output = ada.pushes("-o", "plan", "origin", "HEAD:main")
    assert "removed gateway/main" in said(output), "it does not serve, for no gateway runs"
    assert status == 1


def test_large_files_and_links_are_refused(cluster: Live, ada: Person) -> None:
    (ada.clone / "weights.safetensors").write_bytes(os.urandom(2_000_000))
    ada.commits(DEPLOYMENT % ("more", "tiny"), "more.yaml")
    status, output = ada.pushes()
    assert (status, "  weights.safetensors: 2000000 bytes" in output) == (1, True)
    ada.git("reset", "--quiet", "--hard", "origin/main")
    (ada.clone / "p.yaml").symlink_to("model-tiny.yaml")
    ada.commits(DEPLOYMENT % ("more", "tiny"), "more.yaml")
    status, output = ada.pushes()
    assert (status, "p.yaml: links and submodules are not followed" in said(output)) == (1, True)


@pytest.mark.parametrize("name", ["values.yaml", "kustomization.yaml"])
def test_files_of_other_tools_are_refused(name: str, cluster: Live, ada: Person) -> None:
    ada.commits("replicas: 2\n", name)
    status, output = ada.pushes()
    assert (status, name in said(output)) == (1, True)


def test_a_good_push_shows_the_plan_and_is_followed_until_it_cannot_be_served(
    cluster: Live, ada: Person
) -> None:
    ada.commits(DEPLOYMENT % ("followed", "tiny"), "followed.yaml")
    status, output = ada.pushes("-o", "wait=60s", "origin", "HEAD:main")
    revision = ada.git("rev-parse", "HEAD")[1].strip()
    assert status == 0
    assert output[0] == f"reconciler: plan of {revision[:7]}: new modeldeployment/followed"
    assert f"reconciler: revision {revision[:7]} received" in output
    assert "reconciler: ! modeldeployment/followed: model tiny: no weights at" in said(output)
    wait_for(lambda: head(cluster) == revision)


def test_an_unknown_option_names_those_that_there_are(cluster: Live, ada: Person) -> None:
    ada.commits(DEPLOYMENT % ("more", "tiny"), "more.yaml")
    for option, words in (
        ("wit", 'unknown push option "wit"'),
        ("wait=never", "expected a time from 1s to 1h"),
    ):
        status, output = ada.pushes("-o", option, "origin", "HEAD:main")
        assert (status, words in said(output)) == (1, True)


def test_three_hundred_objects_are_a_few_lines(cluster: Live, ada: Person) -> None:
    ada.commits("---\n".join(DEPLOYMENT % (f"d{i}", "tiny") for i in range(300)), "many.yaml")
    status, output = ada.pushes("-o", "plan", "origin", "HEAD:main")
    assert status == 1
    assert "d0, modeldeployment/d1" in said(output)
    assert "and 296 more" in said(output)
    assert len(output) < 60


def test_a_sync_window_holds_a_change_until_somebody_overrides_it(cluster: Live, ada: Person) -> None:
    window = (
        "kind: SyncWindow\nmetadata: {name: always}\nspec: {kind: deny, schedule: '* * * * *', duration: 1h, "
    )
    ada.commits(API + window + "deployments: [big]}\n", "window.yaml")
    assert ada.pushes()[0] == 0
    path = next(ada.clone.rglob("*big.yaml"))
    ada.commits(path.read_text().replace("model: tiny", "model: tiny, replicas: 2"), str(path))
    ada.commits(DEPLOYMENT % ("beside", "tiny"), "beside.yaml")
    status, output = ada.pushes("-o", "wait=60s", "origin", "HEAD:main")
    assert status == 0
    held = "modeldeployment/big is held by sync window always; to apply now: reconciler override always --reason WHY"
    assert f"reconciler: {held}" in said(output)
    revision = ada.git("rev-parse", "HEAD")[1].strip()
    wait_for(lambda: head(cluster) == revision)
    assert held in cluster.run("get", "deployments").stderr
    assert "modeldeployment/big: its change is held by sync window always" in cluster.run("plan").stdout
    assert "held by sync window always" in cluster.run("describe", "deployment", "big").stdout
    assert "ChangesHeld" in cluster.run("events").stdout
    assert cluster.run("suspend", "big").stdout == "modeldeployment.reconciler/big suspended\n"
    done = cluster.run("override", "always", "--reason", "incident 12")
    assert done.stdout == "syncwindow.reconciler/always overridden\n"
    wait_for(lambda: "held by" not in cluster.run("plan").stdout)
    replicas = ("get", "deployment", "big", "-o", "jsonpath={.spec.replicas}")
    assert cluster.run(*replicas).stdout.strip() == "1", "who suspends it keeps what is in force of it"
    assert cluster.run("resume", "big").returncode == 0
    wait_for(lambda: cluster.run(*replicas).stdout.strip() == "2")
    ada.git("rm", "--quiet", "window.yaml")
    ada.git("commit", "--quiet", "--message", "No windows")
    assert ada.pushes()[0] == 0


def test_whoever_pushes_is_told_by_what_the_cluster_differs_and_operations_have_a_plan_too(
    cluster: Live, ada: Person
) -> None:
    assert cluster.run("cordon", "node-a", "--reason", "the fan").returncode == 0
    ada.commits(DEPLOYMENT % ("differs", "tiny"), "differs.yaml")
    _, output = ada.pushes("-o", "plan", "origin", "HEAD:main")
    assert "live differs from git by cordon of node/node-a by" in said(output)
    assert ada.git("fetch", "--quiet", "origin", "operations")[0] == 0
    assert ada.git("checkout", "--quiet", "--detach", "FETCH_HEAD")[0] == 0
    ada.commits("kind: Operation\n", "cordon.node.other.yaml")
    status, output = ada.pushes("origin", "HEAD:operations")
    assert (status, output[-1]) == (1, "reconciler: operations stays as it was")
    ada.git("reset", "--quiet", "--hard", "HEAD~1")
    ada.git("rm", "--quiet", "cordon.node.node-a.yaml")
    ada.git("commit", "--quiet", "--message", "Use it again")
    began = time.monotonic()
    status, output = ada.pushes("origin", "HEAD:operations")
    print(f"a push of operations: {time.monotonic() - began:.2f} s")
    revision = ada.git("rev-parse", "HEAD")[1].strip()[:7]
    assert status == 0
    assert output[0] == f"reconciler: plan of {revision}: ends cordon.node.node-a"
    assert output[-1] == f"reconciler: revision {revision} received"


def test_only_folders_of_pushed_objects_are_read(cluster: Live) -> None:
    repository = os.path.realpath(cluster.home / "cluster.git")
    commit = head(cluster)
    for folder in ("../..", "pack", "/etc", "tmp_objdir-incoming-gone"):
        request = JudgePush(repository, commit, commit, "refs/heads/main", folder)
        answer = ask(cluster.home / "controller.sock", request)
        assert not answer["accept"]
        assert "is no folder of pushed objects" in " ".join(answer["lines"])
    with pytest.raises(Refused, match="the controller reads"):
        ask(cluster.home / "controller.sock", JudgePush("/tmp", commit, commit, "refs/heads/main"))
