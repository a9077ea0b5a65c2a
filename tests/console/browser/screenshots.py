"""``make screenshots``: pictures of the console for README.md and docs/console.md, of four emulated Macs of which one loses a
cable under load; and how fast the pages are there.

Fonts are those of the machine that runs it: on Debian, ``fonts-inter`` is as near to a Mac as it gets.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.e2e.cluster import ROOT, Cluster
from tests.e2e.emulated_macs.macs import HEALED_SECONDS, answered, incidents, macs, served

from .conftest import CHROMIUM
from .everybody import PAINTED, TRANSFERRED, addresses
from .pages import console_of, opened

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1280, 800, 1.25
BYTES_MAX = 200_000
SETTLE_MILLISECONDS = 1500
"""For the first news of a page to arrive."""
SHOWN_SECONDS = 8.0
"""Until the load is seen in tokens a second."""


def main(every_page: Path | None = None) -> int:
    """The exit status: 1 where a picture is too large to be kept. ``every_page``: a folder for pictures of all pages, whole, light
    and dark, narrow and wide."""
    assert CHROMIUM is not None, "there is no chromium: apt-get install chromium"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        with macs(Path(folder), "four-studios", console=True) as made:
            served(made, "large", 4, "jaccl")
            base = console_of(made)
            for path in ("/", "/cabling", "/deployments/large", "/incidents", "/events"):
                print(speed(browser, base, path), flush=True)
            with load(made):
                time.sleep(SHOWN_SECONDS)
                picture(browser, base, "/", "overview", "light")
                made.run("sandbox", "unplug", "studio-1/3")
                made.wait("the incident", lambda: any(each["person"] for each in incidents(made)))
                picture(browser, base, "/cabling", "cabling", "dark")
                served(made, "large", 4, "jaccl-ring", "ring")
                picture(browser, base, "/deployments/large", "deployment", "light")
                healed = next(each["id"] for each in incidents(made) if each["object"].startswith("model"))
                picture(browser, base, f"/incidents/{healed}", "incident", "dark", height=600)
            if every_page is not None:
                all_pages(browser, base, made, every_page)
            chat(browser, base, made)
        browser.close()
    large = [path.name for path in IMAGES.glob("console-*.png") if path.stat().st_size > BYTES_MAX]
    if large:
        print(f"too large: {', '.join(large)}", file=sys.stderr)
    return bool(large)


def speed(browser: Browser, base: str, path: str) -> str:
    """How fast a page is there that the browser has never seen, the best of three, and how much it is."""
    painted = []
    for _ in range(3):
        with opened(browser, base, path) as page:
            page.wait_for_timeout(SETTLE_MILLISECONDS)
            painted.append(page.evaluate(PAINTED))
            size = page.evaluate(TRANSFERRED) / 1000
    return f"{path}: first paint after {min(painted):.0f} ms, {size:.0f} kB"


def picture(browser: Browser, base: str, path: str, name: str, scheme: str, height: int = HEIGHT) -> None:
    """Take a picture of what is in sight."""
    with in_sight(browser, base, path, scheme, height) as page:
        page.wait_for_timeout(SETTLE_MILLISECONDS)
        keep(page, name)


def all_pages(browser: Browser, base: str, made: Cluster, folder: Path) -> None:
    """Take pictures of every page to look at; none is kept in the repository."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "nodes": "studio-1",
        "deployments": "large",
        "chat": "large",
        "incidents": str(incidents(made)[-1]["id"]),
        "history": made.json("history")["items"][0]["revision"],
    }
    log = made.ask("get", "ranks", "-o", "name").split()[0].partition("/")[2]
    acts = (
        "/act/drain/node/studio-1",
        "/act/restart/modeldeployment/large",
        "/act/scale/modeldeployment/large?replicas=2",
        "/search/logs?q=ready",
    )
    paths = (*addresses(names), f"/logs/{log}", *acts)
    for path in paths:
        for scheme, width in product(("light", "dark"), (390, WIDTH)):
            how: dict[str, Any] = {
                "color_scheme": scheme,
                "viewport": {"width": width, "height": HEIGHT},
                "locale": "en-GB",
            }
            with opened(browser, base, path, **how) as page:
                page.wait_for_timeout(SETTLE_MILLISECONDS)
                name = path.strip("/").replace("/", "-").replace("?", "") or "overview"
                page.screenshot(path=folder / f"{name}-{scheme}-{width}.png", full_page=True)


def chat(browser: Browser, base: str, made: Cluster) -> None:
    """Take a picture of an answer in whose middle a rank was killed."""
    with in_sight(browser, base, "/chat/large", "light", 600) as page:
        page.get_by_text("Settings").click()
        page.get_by_label("Temperature").fill("0")
        page.get_by_text("Settings").click()
        page.get_by_label("Message to large").fill("Count from 1 to 100.")
        page.get_by_label("Message to large").press("Enter")
        page.get_by_text("30, 31").wait_for()
        os.kill(made.ranks()[1]["pid"], signal.SIGKILL)
        page.get_by_text("Continued by epoch").wait_for(timeout=1000 * HEALED_SECONDS)
        page.wait_for_timeout(SETTLE_MILLISECONDS)
        keep(page, "chat")


@contextmanager
def in_sight(browser: Browser, base: str, path: str, scheme: str, height: int) -> Iterator[Page]:
    """Open a page as pictures have it."""
    how: dict[str, Any] = {
        "color_scheme": scheme,
        "viewport": {"width": WIDTH, "height": height},
        "locale": "en-GB",
    }
    with opened(browser, base, path, device_scale_factor=SCALE, **how) as page:
        yield page


def keep(page: Page, name: str) -> None:
    """Write the picture of a page."""
    taken = IMAGES / f"console-{name}.png"
    page.screenshot(path=taken)
    print(f"{taken.relative_to(ROOT)}: {taken.stat().st_size / 1000:.0f} kB", flush=True)


@contextmanager
def load(made: Cluster, askers: int = 3) -> Iterator[None]:
    """Ask all the time, so that there is something to see."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with suppress(OSError, ValueError, KeyError):
                answered(made, "large", tokens=400)

    threads = [threading.Thread(target=ask, name=f"asker {number}") for number in range(askers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else None))
