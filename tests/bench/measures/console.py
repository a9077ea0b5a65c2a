"""What the console costs: fifty open pages while a hundred events a second happen, one of them read by nobody; and each
page until it is painted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.cli.core.client import ask
from reconciler.console.pages import PAGES
from reconciler.wire.admin import ListEvents
from tests.bench.figures import Figure, alone
from tests.cli.live import MANIFESTS, Live, manifest, wait_for
from tests.processes import cpu_seconds, resident_bytes

from .first_paint import measure_pages

OPEN = 50
CHANGED = 50
"""Objects that change with each revision, which is two events of each."""
IDLE = "apiVersion: reconciler/v1alpha1\nkind: ModelDeployment\nmetadata: {name: d%d}\nspec: {model: tiny, replicas: %d}\n"
PATHS = [page.path for page in PAGES if "{" not in page.path]
LOADS = 20


def measure(quick: bool) -> Iterator[Figure]:
    """Of the controller without open pages and with them, in turns; of the console; and of single pages."""
    seconds, turns, count = (0.5, 1, 5) if quick else (10.0, 5, OPEN)
    with _cluster() as (made, console, base):
        yield alone("the largest page with all that it loads", "kB", [_largest(base) / 1000], "< 150")
        with _events(made):
            without, opened, share, rates = [], [], [], []
            for _ in range(turns):
                without.append(_used(made.controller, seconds))
                with _pages(base, count):
                    time.sleep(1)
                    before, last = cpu_seconds([console.pid]), _last(made)
                    began = time.monotonic()
                    opened.append(_used(made.controller, seconds))
                    lasted = time.monotonic() - began
                    share.append(100 * (cpu_seconds([console.pid]) - before) / lasted)
                    rates.append((_last(made) - last) / lasted)
                    loads = [1000 * _loaded(base) for _ in range(LOADS)]
                    memory = resident_bytes(console.pid) / 2**20
            yield alone("events a second meanwhile", "", rates, "~ 100")
            yield alone("controller without open pages", "% core", without)
            yield alone(f"controller with {count} open pages", "% core", opened)
            more = [mine - other for mine, other in zip(opened, without, strict=True)]
            yield alone("what the pages add to the controller", "% core", more, "< 5")
            yield alone("console with them", "% core", share)
            yield alone("console's memory with them", "MiB", [memory], "< 150")
            yield alone("a page loaded meanwhile", "ms", loads, "< 200")
    if not quick:
        yield from measure_pages()


@contextmanager
def _cluster() -> Iterator[tuple[Live, subprocess.Popen[bytes], str]]:
    """A controller of a folder with manifests, its console, and where that listens."""
    folder = Path(tempfile.mkdtemp(prefix="r-"))
    made = Live(folder)
    (folder / "manifests").mkdir()
    for name in MANIFESTS:
        (folder / "manifests" / f"{name}.yaml").write_text(manifest(name))
    _write(folder, 0)
    made.start("--watch", str(folder / "manifests"))
    console = subprocess.Popen(made.command("console", "--any-port"), stderr=subprocess.DEVNULL)
    state = made.home / "console.json"
    try:
        wait_for(lambda: state.exists() and json.loads(state.read_text())["url"])
        yield made, console, json.loads(state.read_text())["url"].rstrip("/")
    finally:
        console.terminate()
        console.wait(10)
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, turn: int) -> None:
    draft = folder / "many.new"
    draft.write_text("---\n".join(IDLE % (index, turn % 2) for index in range(CHANGED)))
    draft.replace(folder / "manifests" / "many.yaml")


@contextmanager
def _events(made: Live) -> Iterator[None]:
    """Change objects each second, meanwhile."""
    over = threading.Event()

    def change() -> None:
        for turn in itertools.count(1):
            if over.wait(1.0):
                return
            _write(made.home.parent, turn)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _pages(base: str, count: int) -> Iterator[None]:
    """Keep pages open, meanwhile, and one more that nobody reads."""
    host, _, port = base.partition("//")[2].partition(":")
    over = threading.Event()

    async def read(path: str, slowly: bool) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /live{path} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
        with contextlib.closing(writer):
            if slowly:
                await asyncio.Event().wait()
            while await reader.read(65_536):
                pass

    async def keep() -> None:
        paths = itertools.islice(itertools.cycle(PATHS), count)
        tasks = [asyncio.create_task(read(path, slowly=False)) for path in paths]
        tasks.append(asyncio.create_task(read("/events", slowly=True)))
        await asyncio.to_thread(over.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(keep()))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _used(process: subprocess.Popen[bytes] | None, seconds: float) -> float:
    """The part of a core that a process takes during some seconds, in percent."""
    assert process is not None
    before, began = cpu_seconds([process.pid]), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_seconds([process.pid]) - before) / (time.monotonic() - began)


def _last(made: Live) -> int:
    return int(ask(made.home / "controller.sock", ListEvents(limit=1))["last"])


def _loaded(base: str) -> float:
    """Seconds until the first page is there as a whole."""
    began = time.monotonic()
    _body(base + "/")
    return time.monotonic() - began


def _body(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        body: bytes = answer.read()
    return body


def _largest(base: str) -> int:
    """Bytes of the largest page with its style sheet, its scripts and its picture."""
    return max(_whole(base, path) for path in PATHS)


def _whole(base: str, path: str) -> int:
    html = _body(base + path).decode()
    addresses = {part.partition('"')[0] for part in html.split('="')[1:] if part.startswith("/static/")}
    return len(html.encode()) + sum(len(_body(base + address)) for address in addresses)
