"""The console of a quickstart: two ranks on this machine."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from reconciler.cli.core.client import ask
from reconciler.source.git.repository import Author, ClusterRepo
from reconciler.source.hook import objection_to
from reconciler.wire.admin import ListCommits, Look, ShowCommit, ShowStatus
from reconciler.wire.keys import hash_of
from tests.console.doors import secret
from tests.e2e.cluster import Cluster, quickstart

from .everybody import PAGE_BYTES_MAX, TRANSFERRED, addresses, cut_off, violations
from .pages import console_of, opened

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {configurable: true, value: hidden});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def made() -> Iterator[Cluster]:
    with quickstart(console=True) as started:
        started.wait_settled()
        yield started


@pytest.fixture(scope="module")
def base(made: Cluster) -> str:
    return console_of(made)


def test_the_first_page_says_what_is_served(browser: Browser, base: str, made: Cluster) -> None:
    with opened(browser, base) as page:
        expect(page.locator(".headline")).to_contain_text("tiny is served")
        expect(page.locator("#machines")).to_contain_text("node-a")


def test_the_keyboard_is_enough(browser: Browser, base: str) -> None:
    with opened(browser, base) as page:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        expect(page.locator(".skip")).to_be_in_viewport()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", "who comes by keyboard sees where they are"
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
        page.locator("nav a", has_text="Deployments").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Deployments")


def test_on_a_telephone_the_name_of_the_open_page_is_in_sight_and_the_keyboard_begins_at_the_top(
    browser: Browser, base: str
) -> None:
    with opened(browser, base, "/events", viewport={"width": 390, "height": 844}) as page:
        expect(page.locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")


def test_moments_are_as_the_browser_writes_them(browser: Browser, base: str) -> None:
    for locale, form in (("de-DE", r"^\d\d:\d\d:\d\d$"), ("en-US", r"^\d+:\d\d:\d\d\s[AP]M$")):
        with opened(browser, base, "/events", locale=locale, timezone_id="UTC") as page:
            expect(page.locator("#events time").first).to_have_text(re.compile(form))


KEYS = 6
"""With the objects of the quickstart, so many that a commit without them is held."""
TABS_MAX = 60


def commit(made: Cluster, changes: Mapping[str, bytes | None]) -> str:
    """A commit to main, as a push is."""
    repo = ClusterRepo(made.home / "cluster.git", check=objection_to)
    revision = repo.commit(repo.head(), changes, "Change the keys", Author("Ada", "ada@example.org"))
    ask(made.home / "controller.sock", Look("source"))
    return revision


def in_force(made: Cluster, revision: str) -> bool:
    return bool(ask(made.home / "controller.sock", ShowStatus())["revision"] == revision)


def test_a_held_revision_is_approved_by_keyboard_alone(browser: Browser, base: str, made: Cluster) -> None:
    text = "apiVersion: reconciler/v1alpha1\nkind: ApiKey\nmetadata: {name: key-%d}\nspec: {hash: %s}\n"
    keys = {f"key-{n}.yaml": (text % (n, hash_of(secret(n)))).encode() for n in range(KEYS)}
    there = commit(made, keys)
    made.wait("the keys", lambda: in_force(made, there))
    gone = commit(made, dict.fromkeys(keys))
    with opened(browser, base, "/history") as page:
        expect(page.locator("#held")).to_contain_text(f"A revision is held: it removes {KEYS} of")
        for _ in range(TABS_MAX):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Approve":
                break
        page.keyboard.press("Enter")
        expect(page.get_by_label("Reason")).to_be_focused()
        expect(page.locator("main")).to_contain_text(f"would remove apikey/key-{KEYS - 1}")
        assert violations(page) == []
        page.keyboard.type("they are not used")
        page.keyboard.press("Enter")
        expect(page.locator(".history-subject")).to_contain_text("they are not used")
    made.wait("the approved revision", lambda: in_force(made, gone))


def newest(made: Cluster) -> Any:
    """The newest commit, with its diff."""
    socket = made.home / "controller.sock"
    return ask(socket, ShowCommit(ask(socket, ListCommits(limit=1))["items"][0]["revision"]))


def written(found: Any) -> list[str]:
    """What a commit says and changes, but for its time."""
    lines = [line for file in found["files"] for line in file["lines"] if not line.startswith("+  at: ")]
    return [found["author"], found["email"], found["message"], *lines]


def test_a_node_is_cordoned_by_the_same_commit_as_by_the_command(
    browser: Browser, base: str, made: Cluster
) -> None:
    made.run("cordon", "node-b", "--reason", "the fan is loud")
    theirs = newest(made)
    with opened(browser, base, "/nodes/node-b") as page:
        for act, reason in (("Uncordon", ""), ("Cordon", "the fan is loud"), ("Uncordon", "")):
            page.goto(f"{base}/nodes/node-b", wait_until="domcontentloaded")
            page.get_by_role("link", name=act, exact=True).click()
            page.get_by_label("Reason").fill(reason)
            page.get_by_role("button", name=act, exact=True).click()
            expect(page.locator(".history-subject")).to_contain_text(f"{act} node/node-b")
            if act == "Cordon":
                assert written(newest(made)) == written(theirs)
                assert newest(made)["revision"] != theirs["revision"]


def test_the_log_of_a_rank_is_followed_and_its_markup_is_text(
    browser: Browser, base: str, made: Cluster
) -> None:
    rank = made.ranks()[0]
    name = rank["metadata"]["name"]
    with opened(browser, base, "/deployments/tiny") as page:
        page.get_by_label("Log of rank 0", exact=True).click()
        lines = page.locator("#log-lines")
        expect(lines).to_contain_text("ready")
        (log,) = (made.home / "nodes" / rank["node"] / "ranks" / name).glob("rank.*.log")
        with log.open("a") as file:
            file.write("\x1b[31m<img src=/evil onerror=alert(1)>\x1b]0;owned\x07 done\n")
        expect(lines).to_contain_text("<img src=/evil onerror=alert(1)> done")
        assert page.locator("#log-lines *").count() == 0
        assert violations(page) == []
        assert "\x1b" not in lines.inner_text()
        page.get_by_role("searchbox", name="Search", exact=True).fill("ONERROR done")
        page.get_by_role("searchbox", name="Search", exact=True).press("Enter")
        page.get_by_role("link", name="Log lines", exact=True).click()
        expect(page.locator(".log-found mark")).to_have_text(["onerror", "done"])
        assert page.locator(".log-found img").count() == 0
        assert violations(page) + cut_off(page) == []
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator("#line")).to_be_in_viewport()
        expect(page.locator("#line")).to_have_text("<img src=/evil onerror=alert(1)> done")


def test_a_deployment_is_scaled_by_keyboard_and_the_page_of_the_commit_takes_it_back(
    browser: Browser, base: str, made: Cluster
) -> None:
    with opened(browser, base, "/deployments/tiny") as page:
        page.get_by_role("link", name="Scale", exact=True).press("Enter")
        expect(page.get_by_label("Replicas")).to_be_focused()
        page.get_by_label("Replicas").fill("2")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_contain_text("Scale modeldeployment/tiny to 2")
        assert violations(page) == []
        page.get_by_label("For", exact=True).select_option("1h")
        page.get_by_role("button", name="Show the commit again").click()
        expect(page.locator("main")).to_contain_text("to the branch operations")
        page.get_by_role("button", name="Scale", exact=True).click()
        expect(page.locator(".history-subject")).to_contain_text("Scale to 2 modeldeployment/tiny")
        page.get_by_role("link", name="Undo the scale of modeldeployment/tiny").click()
        page.get_by_role("button", name="Undo", exact=True).click()
        expect(page.locator(".history-subject")).to_contain_text("Undo operation/scale.modeldeployment.tiny")
    assert "scale" not in [each["spec"]["verb"] for each in made.json("get", "operations")["items"]]


LONG = "Count from 1 to 100."
"""The model knows the answer by heart, and it takes some seconds."""
TOKENS = 300
"""So many that a rank is killed in the middle on a busy machine too."""


def log_of(rank: Mapping[str, Any]) -> str:
    """The address of its log."""
    return f"/logs/{rank['metadata']['name']}"


def test_a_chat_goes_on_after_a_pause_when_a_rank_is_killed(
    browser: Browser, base: str, made: Cluster
) -> None:
    rank = made.ranks()[1]
    with opened(browser, base, "/chat/tiny") as page, opened(browser, base, log_of(rank)) as log:
        expect(log.locator("#log-lines")).to_contain_text("ready")
        page.get_by_text("Settings").click()
        page.get_by_label("Temperature").fill("0")
        page.get_by_label("Maximum tokens").fill(str(TOKENS))
        page.get_by_label("Message to tiny").fill(LONG)
        page.get_by_label("Message to tiny").press("Enter")
        expect(page.locator(".chat-answer")).to_contain_text("5, 6, 7")
        os.kill(rank["pid"], signal.SIGKILL)
        expect(page.locator(".chat-pause")).to_contain_text("Paused: the group is being formed again")
        expect(page.locator("#chat_state")).to_contain_text("rank crash")
        told = page.locator(".chat-facts")
        expect(told).to_contain_text(re.compile(r"Paused for \d+(\.\d)? s"))
        expect(told).to_contain_text(f"Continued by epoch {rank['epoch'] + 1} on node-a, node-b.")
        expect(told).to_contain_text(f"Answered by epoch {rank['epoch']} on node-a, node-b")
        expect(told).to_contain_text(
            re.compile(rf"first token after [\d.]+ m?s[\d.]+ tokens/s{TOKENS} tokens")
        )
        seam = page.locator(".chat-seam").inner_text()
        counted = page.locator(".chat-answer").inner_text().replace(seam, "").replace(" ", "")
        assert ",".join(map(str, range(1, 101))).startswith(counted)
        expect(log.locator("#log-lines")).to_contain_text(f": epoch {rank['epoch'] + 1} on {rank['node']}]")
        expect(log.locator("#log-said")).to_have_text("")
        assert violations(page) == []


@pytest.fixture(scope="module")
def healed(made: Cluster) -> Cluster:
    """The cluster with an incident. Most often the chat above has left one; else a rank is killed."""
    if not made.json("incidents")["items"]:
        os.kill(made.ranks()[1]["pid"], signal.SIGKILL)
        made.wait("the incident", lambda: made.json("incidents")["items"])
    made.wait_settled()
    return made


def names(made: Cluster) -> dict[str, str]:
    """Of an object for each page that is about one, by the first word of its path."""
    rank = made.ranks()[0]["metadata"]["name"]
    revision = made.json("get", "nodes")["revision"]
    return {
        "deployments": "tiny",
        "nodes": "node-a",
        "incidents": "1",
        "chat": "tiny",
        "logs": rank,
        "history": revision,
    }


ACTS = (
    "cordon/node/node-a",
    "drain/node/node-b",
    "suspend/modeldeployment/tiny",
    "resume/cluster/main",
    "scale/modeldeployment/tiny",
    "scale/modeldeployment/tiny?replicas=0",
    "undo/modeldeployment/tiny",
)


def test_every_page_is_for_everybody(browser: Browser, base: str, healed: Cluster) -> None:
    """No serious violation by axe-core in light and dark, wide and narrow; no page is wider than the screen, or heavy."""
    known = names(healed)
    found, heavy = [], {}
    with opened(browser, base, refused=True) as page:
        logs = (f"/logs/{known['logs']}", "/search/logs", "/search/logs?q=ready")
        others = (*logs, *(f"/act/{act}" for act in ACTS), "/metrics?since=24h")
        for address in (*addresses(known), *others):
            page.goto(base + address, wait_until="domcontentloaded")
            expect(page.locator("h1")).to_be_attached()
            found += violations(page) + cut_off(page)
            heavy[address] = page.evaluate(TRANSFERRED)
    assert found == []
    assert {address: size for address, size in heavy.items() if size > PAGE_BYTES_MAX} == {}


def test_without_scripts_every_page_has_its_content(browser: Browser, base: str, healed: Cluster) -> None:
    words = {
        "/": "tiny is served",
        "/cabling": "No Fabric is declared",
        "/deployments": "1 of 1 replicas serve",
        "/deployments/tiny": "maxBatch",
        "/nodes": "node-b",
        "/nodes/node-a": "RuntimeReady",
        "/incidents": "ank crash",
        "/events": "EpochAllocated",
        "/jobs": "No Job is in force",
        "/jobs/nobody": "There is no job with this name",
        "/?wall": "tiny is served",
    }
    with opened(browser, base, java_script_enabled=False) as page:
        for address in addresses(names(healed)):
            page.goto(base + address, wait_until="domcontentloaded")
            expect(page.locator("main")).to_contain_text(words.get(address, "On the command line"))


def test_a_page_that_nobody_sees_gives_its_connection_to_another_one(browser: Browser, base: str) -> None:
    with opened(browser, base) as page:
        expect(page.locator("#pulse")).to_be_visible()
        with page.expect_event("requestfailed", lambda asked: asked.url.endswith("/live/")):
            page.evaluate(HIDE, True)
        with page.expect_request(lambda asked: asked.url.endswith("/live/")):
            page.evaluate(HIDE, False)
