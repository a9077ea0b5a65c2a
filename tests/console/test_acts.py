"""What is done from a page of the console is the commit that the command makes, asked once, or nothing."""

from __future__ import annotations

import copy
import html
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx2
import pytest

from reconciler.cli.core.client import ask
from reconciler.console.acts.form import TOKEN_SECONDS, Tokens, typed
from reconciler.console.snapshot import Snapshot
from reconciler.console.view.acts import acts_of, command
from reconciler.console.view.machine import machines
from reconciler.console.view.operation import commits_wait
from reconciler.source.git.repository import MIRROR
from reconciler.wire.admin import ListCommits, ShowCommit
from tests.cli.live import Live, live

from .doors import OWNER, client_of, doors_of, key, secret, with_keys
from .live import BASE, console_of
from .snapshots import recorded
from .test_feed import until

pytestmark = pytest.mark.second_tier
SAME_ORIGIN = {"origin": BASE}
HOSTILE = "<b>loud</b>"


@pytest.fixture(scope="module")
def made() -> Iterator[Live]:
    with live() as cluster:
        yield cluster


def newest(made: Live, branch: str = "operations") -> Any:
    """The newest commit of a branch, with its diff. Commits to two branches may be of the same second."""
    socket = made.home / "controller.sock"
    items = ask(socket, ListCommits(limit=20))["items"]
    return ask(socket, ShowCommit(next(each["revision"] for each in items if each["branch"] == branch)))


def lines(commit: Any) -> list[str]:
    """What a commit writes, but for who and when."""
    return [
        line for file in commit["files"] for line in file["lines"] if not re.match(r"\+  (by|at): ", line)
    ]


def token(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


async def confirmed(client: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    """Read the page of an act, then send its form."""
    page = await client.get(path)
    return await client.post(path, data={**fields, "token": token(page.text)}, headers=SAME_ORIGIN)


async def test_a_node_is_cordoned_by_the_same_commit_as_by_the_command(made: Live) -> None:
    async with console_of(made) as (client, _):
        page = (await client.get("/act/cordon/node/node-a", params={"reason": HOSTILE})).text
        assert "Cordon node/node-a: &lt;b&gt;loud&lt;/b&gt;" in page
        assert "reconciler cordon node-a --reason" in page
        assert HOSTILE not in page
        done = await confirmed(client, "/act/cordon/node/node-a", reason=HOSTILE)
        ours = newest(made)
        assert (done.status_code, done.headers["location"]) == (303, f"/history/{ours['revision']}")
        assert (ours["author"], ours["email"]) == (OWNER.name, OWNER.email)
        assert "it already has this state" in (await client.get("/act/cordon/node/node-a")).text
        done = await confirmed(client, "/act/uncordon/node/node-a")
        assert newest(made)["subject"] == "Uncordon node/node-a"
    assert made.run("cordon", "node-a", "--reason", HOSTILE).returncode == 0
    theirs = newest(made)
    assert (theirs["message"], lines(theirs)) == (ours["message"], lines(ours))
    assert made.run("uncordon", "node-a").returncode == 0


async def test_a_deployment_is_suspended_and_resumed_and_restarted(made: Live) -> None:
    async with console_of(made) as (client, _):
        for verb, subject in (("suspend", "Suspend"), ("resume", "Resume"), ("restart", "Restart")):
            await confirmed(client, f"/act/{verb}/modeldeployment/tiny", **{"for": "2h"})
            assert newest(made)["subject"] == f"{subject} modeldeployment/tiny"


def replicas(made: Live) -> int:
    """The number of replicas of the manifest of tiny in ``main``."""
    text = subprocess.run(
        ["git", f"--git-dir={made.home}/cluster.git", "show", "main:modeldeployment-tiny.yaml"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = re.search(r"replicas: (\d+)", text)
    return int(found[1]) if found else 1


TINY = "/act/scale/modeldeployment/tiny"


async def test_a_deployment_is_scaled_and_stopped_and_started_by_the_commits_of_the_command(
    made: Live,
) -> None:
    async with console_of(made) as (client, feed):
        asked = (await client.get(TINY)).text
        assert 'name="replicas"' in asked
        assert 'method="get"' in asked, "the commit is shown before anything can be written"
        page = (await client.get(f"{TINY}?replicas=2")).text
        assert "Scale modeldeployment/tiny to 2" in page
        assert "reconciler scale modeldeployment/tiny --replicas=2" in page
        assert "to the branch main" in page
        done = await client.post(TINY, data={"replicas": "3", "token": token(page)}, headers=SAME_ORIGIN)
        assert (done.status_code, replicas(made)) == (403, 1), "another number than the one that was shown"
        done = await client.post(TINY, data={"replicas": "2", "token": token(page)}, headers=SAME_ORIGIN)
        assert done.headers["location"] == f"/history/{newest(made, 'main')['revision']}"
        ours = newest(made, "main")
        assert (replicas(made), ours["author"]) == (2, OWNER.name)
        await until(feed, lambda now: "replicas=0" in stop_of(now))
        stopping = (await client.get(f"{TINY}?replicas=0")).text
        assert "<h1>Stop modeldeployment/tiny</h1>" in stopping
        await confirmed(client, f"{TINY}?replicas=0", replicas="0")
        assert replicas(made) == 0
        await until(feed, lambda now: "replicas=1" in stop_of(now))
        assert "<h1>Start modeldeployment/tiny</h1>" in (await client.get(f"{TINY}?replicas=1")).text
        await confirmed(client, f"{TINY}?replicas=1", replicas="1")
    assert made.run("scale", "tiny", "--replicas=2").returncode == 0
    theirs = newest(made, "main")
    assert (theirs["message"], theirs["branch"]) == (ours["message"], ours["branch"])
    assert made.run("scale", "tiny", "--replicas=1").returncode == 0


def stop_of(now: Snapshot) -> str:
    """Where the button leads that stops the deployment, or starts it."""
    return " ".join(each.href for each in acts_of(now.named("ModelDeployment", "tiny")))


async def test_a_number_for_a_while_is_an_operation_that_is_undone_where_it_is_shown(made: Live) -> None:
    async with console_of(made) as (client, feed):
        await confirmed(client, f"{TINY}?replicas=0", replicas="0", **{"for": "2h"})
        assert (newest(made)["branch"], replicas(made)) == ("operations", 1)
        operation = newest(made)["revision"]
        await until(feed, lambda now: "/act/undo/operation/scale.modeldeployment.tiny" in stop_of(now))
        page = (await client.get("/deployments/tiny")).text
        assert "<b>Stopped</b>" in page
        assert "Undo scale" in page
        assert (
            "/act/undo/operation/scale.modeldeployment.tiny"
            in (await client.get(f"/history/{operation}")).text
        )
        await confirmed(client, "/act/undo/operation/scale.modeldeployment.tiny")
        assert newest(made)["subject"] == "Undo operation/scale.modeldeployment.tiny"
        again = await client.get("/act/undo/operation/scale.modeldeployment.tiny")
        assert (again.status_code, "is in force; known: " in again.text) == (409, True)


async def test_a_number_for_good_ends_the_one_for_a_while(made: Live) -> None:
    async with console_of(made) as (client, _):
        await confirmed(client, f"{TINY}?replicas=3", replicas="3", **{"for": "2h"})
        page = (await client.get(f"{TINY}?replicas=2")).text
        assert "to the branches main and operations" in page
        await confirmed(client, f"{TINY}?replicas=2", replicas="2")
        assert replicas(made) == 2
        ended = await client.get("/act/undo/operation/scale.modeldeployment.tiny")
        assert ended.status_code == 409
        await confirmed(client, f"{TINY}?replicas=1", replicas="1")


async def test_a_change_of_a_manifest_is_taken_back_from_the_page_of_its_commit(made: Live) -> None:
    assert made.run("scale", "tiny", "--replicas=5", "--reason", "a mistake").returncode == 0
    mistake = newest(made, "main")
    async with console_of(made) as (client, _):
        shown = (await client.get(f"/history/{mistake['revision']}")).text
        (way,) = mistake["acts"]
        path = f"/act/undo/modeldeployment/tiny?to={way['to']}"
        assert path in shown
        page = (await client.get(path)).text
        assert f"reconciler rollout undo modeldeployment/tiny --to-revision={way['to']}" in page
        done = await confirmed(client, path, to=way["to"])
        assert done.headers["location"] == f"/history/{newest(made, 'main')['revision']}"
        assert (replicas(made), newest(made, "main")["author"]) == (1, OWNER.name)
        elsewhere = await client.get("/act/undo/apikey/ada")
        assert elsewhere.status_code == 303, "rights are given by the command alone"


@pytest.mark.parametrize("number", ["-1", "65", "two", "1e1", "²"])
async def test_a_number_is_refused_with_the_sentence_of_the_command(made: Live, number: str) -> None:
    said = f"xpected a number of replicas from 0 to 64, got {number!r}"
    async with console_of(made) as (client, _):
        page = await client.get(TINY, params={"replicas": number})
        assert (page.status_code, html.escape(said, quote=True).replace("&#x27;", "&#39;") in page.text) == (
            409,
            True,
        )
    assert said in made.run("scale", "tiny", f"--replicas={number}").stderr


def waiting(wished: bool, now: Snapshot) -> bool:
    return commits_wait(now) == wished


async def test_the_history_offers_to_suspend_new_commits_or_to_resume_them(made: Live) -> None:
    async with console_of(made) as (client, feed):
        for verb, other, waits in (("suspend", "resume", True), ("resume", "suspend", False)):
            shown = (await client.get("/history")).text
            assert f"/act/{verb}/cluster/main" in shown
            assert f"/act/{other}/cluster/main" not in shown
            await confirmed(client, f"/act/{verb}/cluster/main")
            await until(feed, partial(waiting, waits))


async def test_what_stands_is_said_where_the_object_is_shown(made: Live) -> None:
    async with console_of(made) as (client, feed):
        await confirmed(client, "/act/cordon/node/node-a", reason=HOSTILE)
        await until(feed, lambda now: bool(machines(now)[0].standing))
        page = (await client.get("/nodes/node-a")).text
        assert f"<b>Cordoned</b> by {OWNER.name}" in page
        assert ": &lt;b&gt;loud&lt;/b&gt;" in page
        for path in ("/", "/nodes"):
            assert "<small>cordoned</small>" in (await client.get(path)).text
        await confirmed(client, "/act/uncordon/node/node-a")
        await until(feed, lambda now: not machines(now)[0].standing)
        assert "Cordoned" not in (await client.get("/nodes/node-a")).text.partition("<h2>")[0]


def config(made: Live, *words: str) -> None:
    """Change a setting of the cluster repository."""
    subprocess.run(["git", f"--git-dir={made.home}/cluster.git", "config", *words], check=True)


async def test_where_main_is_a_mirror_operations_work_all_the_same(made: Live) -> None:
    config(made, MIRROR, "https://git.example/cluster.git")
    async with console_of(made) as (client, _):
        for act in ("cordon", "uncordon"):
            done = await confirmed(client, f"/act/{act}/node/node-a")
            assert done.headers["location"] == f"/history/{newest(made)['revision']}"
    config(made, "--unset", MIRROR)


@pytest.mark.second_tier
async def test_what_a_manifest_says_is_taken_back_by_a_commit_to_main_and_its_page_is_shown(
    made: Live,
) -> None:
    keeps_off = '{"spec":{"unschedulable":true}}'
    assert made.run("patch", "node/node-a", "-p", keeps_off).returncode == 0
    async with console_of(made) as (client, _):
        done = await confirmed(client, "/act/uncordon/node/node-a")
        (written,) = ask(made.home / "controller.sock", ListCommits(limit=1))["items"]
        assert (written["branch"], written["subject"]) == ("main", "Uncordon node/node-a")
        assert done.headers["location"] == f"/history/{written['revision']}"
        assert made.run("patch", "node/node-a", "-p", keeps_off).returncode == 0
        config(made, MIRROR, "https://git.example/cluster.git")
        page = await client.get("/act/uncordon/node/node-a")
        assert (page.status_code, "Nothing was written" in page.text) == (409, True)
        assert "<form" not in page.text.partition("<main")[2], "what would be refused is not offered"
        assert made.run("cordon", "node-a").returncode == 0
        done = await confirmed(client, "/act/uncordon/node/node-a")
        assert (done.status_code, newest(made)["branch"]) == (303, "operations")
    config(made, "--unset", MIRROR)
    assert made.run("uncordon", "node-a").returncode == 0


async def test_what_cannot_be_done_is_said_and_what_was_typed_is_kept(made: Live) -> None:
    async with console_of(made) as (client, _):
        for path, text in (
            ("/act/cordon/node/nobody", "Nodes &#34;nobody&#34; not found"),
            ("/act/approve/revision/ffffffff", "No revision is held"),
            ("/act/restart/node/node-a", "use the command"),
            ("/act/resume/modeldeployment/big", "is not suspended"),
        ):
            answer = await client.get(path, params={"reason": "a loud fan"})
            assert answer.status_code == 409
            assert text in answer.text
            assert "Nothing was written" in answer.text
            assert "--reason &#39;a loud fan&#39;" in answer.text
        before = newest(made)["revision"]
        refused = await client.post("/act/cordon/node/node-a", data={"reason": "x"}, headers=SAME_ORIGIN)
        assert refused.status_code == 403
        assert 'value="x"' in refused.text
        assert newest(made)["revision"] == before


def test_another_page_and_another_site_change_nothing() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    for headers in ({}, {"origin": "https://evil.example"}, {"origin": "null"}):
        assert client.post("/act/cordon/node/studio-1", headers=headers).status_code == 403


def test_a_key_that_may_look_sees_the_command_and_no_form() -> None:
    doors = doors_of(with_keys(recorded("four-macs"), key("ada", 1, "view")))
    shown = client_of(doors).get(
        "/act/cordon/node/studio-1", headers={"authorization": f"Bearer {secret(1)}"}
    )
    assert "The key ada may view" in shown.text
    assert "<form" not in shown.text.partition("<main")[2]
    sent = client_of(doors).post(
        "/act/cordon/node/studio-1", headers={"authorization": f"Bearer {secret(1)}", **SAME_ORIGIN}
    )
    assert sent.status_code == 403
    for path in (
        "/act/scale/modeldeployment/large?replicas=2",
        "/act/undo/operation/scale.modeldeployment.large",
    ):
        shown = client_of(doors).get(path, headers={"authorization": f"Bearer {secret(1)}"})
        assert "<form" not in shown.text.partition("<main")[2]
        sent = client_of(doors).post(
            path, data={"replicas": "2"}, headers={"authorization": f"Bearer {secret(1)}", **SAME_ORIGIN}
        )
        assert sent.status_code == 403


@pytest.mark.parametrize("keys", [False, True])
def test_where_the_console_only_reads_nobody_may_act_and_the_page_says_why(keys: bool) -> None:
    snapshot = recorded("four-macs")
    if keys:
        snapshot = with_keys(snapshot, key("ada", 1, "operate"))
    objects = copy.deepcopy(snapshot.objects)
    for each in objects:
        if each["kind"] == "Gateway":
            each["spec"]["console"] = {**(each["spec"].get("console") or {}), "readOnly": True}
    client = client_of(doors_of(replace(snapshot, objects=objects)))
    headers = {"authorization": f"Bearer {secret(1)}"} if keys else {}
    for path in (
        "/act/scale/modeldeployment/large?replicas=0",
        "/act/scale/modeldeployment/large",
        "/act/undo/node/studio-1",
    ):
        shown = client.get(path, headers=headers).text
        assert "This console is read-only" in shown
        assert "<form" not in shown.partition("<main")[2]
        assert client.post(path, headers={**headers, **SAME_ORIGIN}).status_code == 403


def test_without_a_controller_nothing_is_written_and_the_page_says_so() -> None:
    shown = client_of(doors_of(recorded("four-macs"))).get("/act/drain/node/studio-1")
    assert shown.status_code == 503
    assert "Nothing was written" in shown.text


def test_what_was_typed_is_kept_where_no_controller_answers() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    form = {"reason": "a loud fan", "for": "2h", "token": "1.2"}
    kept = client.post("/act/drain/node/studio-1", data=form, headers=SAME_ORIGIN).text
    assert 'value="a loud fan"' in kept
    assert '<option value="2h" selected>' in kept


def test_a_token_is_for_one_act_of_one_person_for_an_hour() -> None:
    tokens = Tokens()
    made = tokens.make("/act/cordon/node/a ada", 1000.0)
    assert tokens.good(made, "/act/cordon/node/a ada", 1000.0 + TOKEN_SECONDS)
    assert not tokens.good(made, "/act/cordon/node/a ada", 1001.0 + TOKEN_SECONDS)
    assert not tokens.good(made, "/act/cordon/node/b ada", 1000.0)
    assert not tokens.good(made, "/act/cordon/node/a eve", 1000.0)
    assert not Tokens().good(made, "/act/cordon/node/a ada", 1000.0)
    assert not any(tokens.good(bad, "/act/cordon/node/a ada", 1000.0) for bad in ("", "1000", "1000.é", "²."))


def test_what_a_form_has_too_much_or_wrong_counts_as_left_out() -> None:
    assert typed({"reason": " two\nlines ", "for": "9y", "force": "no"}) == typed({"reason": "two lines"})
    assert [typed({"run": text}).run for text in ("12", "0", "-1", "1e1", "²", "1" * 20)] == ["12"] + 5 * [""]


@pytest.mark.second_tier
def test_the_command_on_the_page_does_the_same() -> None:
    assert command("restart", "modeldeployment", "tiny", "", "", False) == (
        "reconciler rollout restart modeldeployment/tiny"
    )
    assert command("suspend", "cluster", "main", "a demo", "2h", False) == (
        "reconciler suspend --all --reason 'a demo' --for 2h"
    )
    assert command("drain", "node", "a", "", "", True) == "reconciler drain a --force"
    assert command("scale", "modeldeployment", "tiny", "visitors", "2h", False, "3") == (
        "reconciler scale modeldeployment/tiny --replicas=3 --reason visitors --for 2h"
    )
    assert command("undo", "operation", "scale.modeldeployment.tiny", "", "", False) == (
        "reconciler undo scale.modeldeployment.tiny"
    )
    assert command("undo", "fabric", "desk", "wrong", "", False, to_revision="abcd") == (
        "reconciler rollout undo fabric/desk --to-revision=abcd -m wrong"
    )
