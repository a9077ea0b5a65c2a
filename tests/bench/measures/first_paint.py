"""Each page of the console in Chromium: until it is painted, and how much it is with all that it loads. The pages are those of a
quickstart in which a rank has died, with a log that is as long as a page shows it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial

from playwright.sync_api import Browser, sync_playwright

from reconciler.console.logs.log import TAIL_BYTES
from reconciler.console.pages import PAGES
from tests.bench.figures import Figure, alone
from tests.cli.live import wait_for
from tests.console.browser.conftest import CHROMIUM
from tests.console.browser.everybody import PAINTED, TRANSFERRED
from tests.console.browser.pages import console_of, opened
from tests.console.chat.gateway_double import console_at
from tests.console.doors import key
from tests.e2e.cluster import Cluster, quickstart

LOADS = 10


def measure_pages() -> Iterator[Figure]:
    """Of every page, each time in a browser that has kept nothing. Nothing where there is no Chromium."""
    if CHROMIUM is None:
        return
    with (
        quickstart(console=True) as made,
        console_at(None, key("alice", 1, "operate")) as keyed,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        base = console_of(made)
        os.kill(made.ranks()[1]["pid"], signal.SIGKILL)
        made.wait("an incident", lambda: made.json("incidents")["items"])
        made.wait_settled()
        shown = {path: _opened(browser, base, address) for path, address in _addresses(made)}
        shown["/login"] = _opened(browser, keyed, "/login")
        browser.close()
    for path, (painted, _) in shown.items():
        yield alone(f"{path}: first paint", "ms", painted, "< 200")
    for path, (_, bytes) in shown.items():
        yield alone(f"{path}: the whole page", "kB", [bytes / 1000], "< 150")


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


def _opened(browser: Browser, base: str, address: str) -> tuple[list[float], int]:
    """Milliseconds until each first paint, and bytes of the page with all that it loads. Fails for a request to anywhere else."""
    painted, bytes = [], 0
    for _ in range(LOADS):
        with opened(browser, base, address, refused=True) as page:
            # The page's own policy forbids playwright's waits, which evaluate texts: it is asked instead.
            wait_for(partial(page.evaluate, PAINTED))
            page.wait_for_load_state("load")
            painted.append(float(page.evaluate(PAINTED)))
            bytes = int(page.evaluate(TRANSFERRED))
    return painted, bytes
