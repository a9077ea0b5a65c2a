"""A page of the console in Chromium, and what must hold of every one: no error, no request to anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.e2e.cluster import Cluster


def console_of(made: Cluster) -> str:
    """The console's URL without the slash, once it listens."""
    made.wait("the console", lambda: _url(made))
    return _url(made).rstrip("/")


def _url(made: Cluster) -> str:
    path = made.home / "console.json"
    return str(json.loads(path.read_bytes())["url"] or "") if path.exists() else ""


@contextmanager
def opened(
    browser: Browser, base: str, path: str = "/", *, refused: bool = False, **how: Any
) -> Iterator[Page]:
    """Open a page in a context of its own (``how``: as ``Browser.new_context`` takes it). Fails for errors on the page, and
    for requests to other hosts. ``refused``: the console may answer with an error status, which Chromium takes for an error."""
    context = browser.new_context(**how)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: None if _expected(said, refused) else wrong.append(said.text))
    page.on("request", lambda asked: None if asked.url.startswith(f"{base}/") else wrong.append(asked.url))
    try:
        page.goto(base + path, wait_until="domcontentloaded")
        yield page
    finally:
        context.close()
    assert not wrong, wrong


def _expected(said: ConsoleMessage, refused: bool) -> bool:
    return said.type != "error" or (refused and "the server responded with a status of 4" in said.text)
