"""The history of a real cluster: who changed what, what it did, and what takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.cli.core.client import ask
from reconciler.errors import Refused
from reconciler.source.git.repository import ClusterRepo
from reconciler.source.hook import objection_to
from reconciler.wire.admin import ListCommits, Look, ShowCommit, ShowStatus
from reconciler.wire.answers import Commit
from tests.cli.live import Live, live, wait_for
from tests.source.conftest import AUTHOR

from .live import console_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def made() -> Iterator[Live]:
    """A cluster whose node was cordoned, with a reason that is markup; then a commit would remove most of it."""
    with live() as cluster:
        cluster.run("cordon", "node-a", "--reason", HOSTILE)
        removed(cluster, "modeldeployment-big")
        wait_for(lambda: status(cluster)["revision"] == ClusterRepo(cluster.home / "cluster.git").head())
        removed(cluster, "modeldeployment-tiny", "model-tiny", "gateway-main")
        wait_for(lambda: status(cluster)["held"])
        yield cluster


def removed(cluster: Live, *names: str) -> None:
    """Commit the removal of files."""
    repo = ClusterRepo(cluster.home / "cluster.git", check=objection_to)
    repo.commit(repo.head(), {f"{name}.yaml": None for name in names}, f"Remove {HOSTILE}", AUTHOR)
    ask(cluster.home / "controller.sock", Look("source"))


def status(cluster: Live) -> Any:
    return ask(cluster.home / "controller.sock", ShowStatus())


def history(made: Live) -> list[Commit]:
    """The three commits of main, newest first, then that of the operations: all may be of one second."""
    items = ask(made.home / "controller.sock", ListCommits())["items"]
    return sorted(items, key=lambda item: str(item["branch"]))


def test_the_history_has_both_branches_newest_first_with_what_became_of_each(made: Live) -> None:
    gone, less, first, cordon = history(made)
    assert [gone["state"], less["state"], cordon["state"], first["state"]] == [
        "Held",
        "InForce",
        "InForce",
        "Earlier",
    ]
    assert [each["branch"] for each in (less, cordon)] == ["main", "operations"]
    assert less["objects"] == [{"object": "modeldeployment/big", "action": "removed"}]
    assert cordon["objects"] == [{"object": "operation/cordon.node.node-a", "action": "added"}]
    assert len(first["objects"]) == 5


def test_a_commit_is_shown_with_its_diff_and_what_takes_it_back(made: Live) -> None:
    _, less, first, cordon = history(made)
    shown = made.run("history", less["revision"][:8]).stdout
    assert "-metadata: {name: big, labels: {tier: test}}" in shown
    assert f"reconciler rollout undo modeldeployment/big --to-revision={first['revision'][:10]}" in shown
    assert ask(made.home / "controller.sock", ShowCommit(cordon["revision"]))["undo"] == [
        "reconciler uncordon node-a"
    ]
    with pytest.raises(Refused, match="list them with: reconciler history"):
        ask(made.home / "controller.sock", ShowCommit("ffffffff"))


async def test_a_deployment_names_the_commit_in_force_that_changed_it_last(made: Live) -> None:
    gone, less, first, _ = history(made)
    async with console_of(made) as (client, _):
        shown = (await client.get("/deployments/tiny")).text
    assert f"Last changed by {first['author']}" in shown
    assert f'<a href="/history/{first["revision"]}">{first["subject"]}</a>' in shown
    assert not any(f"/history/{other['revision']}" in shown for other in (gone, less))


async def test_the_pages_say_the_same_and_take_nothing_for_markup(made: Live) -> None:
    gone, less, _, cordon = history(made)
    async with console_of(made) as (client, _):
        listed = (await client.get("/history")).text
        assert "A revision is held: it removes 3 of 4 objects" in listed
        assert f"reconciler approve {gone['revision'][:10]}" in listed
        assert all(each["revision"] in listed for each in (gone, less, cordon))
        shown = (await client.get(f"/history/{cordon['revision']}")).text
        assert "reconciler uncordon node-a" in shown
        assert "OperationInForce" in shown
        assert HOSTILE not in listed + shown
        assert "is no commit" in (await client.get("/history/ffffffff")).text
