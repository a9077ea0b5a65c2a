"""A page of the console in Chromium, and what must hold of every one: no error, no request to anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from tests.e2e.cluster import Cluster


def console_of(made: Cluster) -> str:
    """The console's URL without the slash, once it listens."""
    made.wait("the console", lambda: _url(made))
    return _url(made).rstrip("/")


def _url(made: Cluster) -> str:
    path = made.home / "console.json"
    return str(json.loads(path.read_bytes())["url"] or "") if path.exists() else ""


@contextmanager
def opened(browser: Browser, base: str, path: str = "/", **how: Any) -> Iterator[Page]:
    """Open a page in a context of its own (``how``: as ``Browser.new_context`` takes it). Fails for errors on the page, and
    for requests to other hosts."""
    context = browser.new_context(**how)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith(base) else wrong.append(asked.url))
    try:
        page.goto(base + path, wait_until="domcontentloaded")
        yield page
    finally:
        context.close()
    assert wrong == []
