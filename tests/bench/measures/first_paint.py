"""Each page of the console in Chromium: until it is painted, beside a page with one word, and how much it is with all that it
loads. The pages are those of a quickstart in which a rank has died, with a log that is as long as a page shows it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial

from playwright.sync_api import Page, sync_playwright
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from reconciler.console.logs.log import TAIL_BYTES
from reconciler.console.pages import PAGES
from tests.bench.figures import Figure, alone, paired
from tests.cli.live import wait_for
from tests.console.browser.conftest import CHROMIUM
from tests.console.browser.everybody import PAINTED, TRANSFERRED
from tests.console.browser.pages import console_of, opened
from tests.console.chat.gateway_double import console_at, serving
from tests.console.doors import key
from tests.e2e.cluster import Cluster, quickstart

LOADS = 7
WORD = '<!doctype html><html lang="en"><title>w</title><link rel="icon" href="data:,"><p>word</p>'
"""What a browser needs for a page at least, on this machine as busy as it is."""


def measure_pages() -> Iterator[Figure]:
    """Of every page, each time in a browser that has kept nothing. Nothing where there is no Chromium."""
    if CHROMIUM is None:
        return
    with (
        quickstart(console=True) as made,
        console_at(None, key("alice", 1, "operate")) as keyed,
        serving(Starlette(routes=[Route("/", lambda _: HTMLResponse(WORD))])) as word,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        base = console_of(made)
        os.kill(made.ranks()[1]["pid"], signal.SIGKILL)
        made.wait("an incident", lambda: made.json("incidents")["items"])
        made.wait_settled()
        pages = [*((path, base, address) for path, address in _addresses(made)), ("/login", keyed, "/login")]
        bytes = {}
        for path, of, address in pages:
            painted, other = [], []
            for _ in range(LOADS):
                with opened(browser, of, address, refused=True) as page:
                    painted.append(_painted(page))
                    page.wait_for_load_state("load")
                    bytes[path] = int(page.evaluate(TRANSFERRED))
                with opened(browser, f"http://{word}") as page:
                    other.append(_painted(page))
            yield paired(f"{path}: first paint", "ms", painted, other, "< 200")
        browser.close()
    for path, count in bytes.items():
        yield alone(f"{path}: the whole page", "kB", [count / 1000], "< 150")


def _painted(page: Page) -> float:
    """Milliseconds until the first paint with content. The console's policy forbids playwright's waits, which evaluate texts: the
    page is asked instead."""
    wait_for(partial(page.evaluate, PAINTED))
    return float(page.evaluate(PAINTED))


def _addresses(made: Cluster) -> Iterator[tuple[str, str]]:
    """Each page's path, and its address for an object that exists."""
    rank = made.ranks()[0]
    (log,) = (made.home / "nodes" / rank["node"] / "ranks" / rank["metadata"]["name"]).glob("rank.*.log")
    with log.open("a") as file:
        file.writelines(f"{number:08} {'x' * 70}\n" for number in range(TAIL_BYTES // 80))
    names = {"nodes": "node-a", "deployments": "tiny", "chat": "tiny", "incidents": "1"}
    names["history"] = made.json("get", "nodes")["revision"]
    for page in PAGES:
        yield page.path, page.address(names[page.path.split("/")[1]] if "{name}" in page.path else "")
    yield "/?wall", "/?wall"
    yield "/logs/{name}", f"/logs/{rank['metadata']['name']}"
    yield "/act/{verb}/…", "/act/drain/node/node-a"
    yield "/404", "/404"
