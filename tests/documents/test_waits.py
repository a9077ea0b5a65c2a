"""Every wait of the product has an end, and the page on faults says which."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from reconciler.state import WaitingFor

from . import waits
from .waits import Wait

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "reconciler"
PAGE = (ROOT / "docs" / "faults.md").read_text()
SECTION = PAGE.split("## Waits")[1].split("\n## ")[0]
LEFT_OUT = ("sandbox/", "cli/commands/cluster/sandbox")
"""It emulates machines on which things hang."""
PLACE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py:[\w.]+)`")


@cache
def found() -> tuple[Wait, ...]:
    return tuple(waits.in_package(PACKAGE, LEFT_OUT))


def rows(title: str) -> list[list[str]]:
    """The cells of a table of the section, without its head."""
    part = SECTION.split(f"### {title}")[1].split("\n### ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def places(title: str) -> list[str]:
    return [name for row in rows(title) for cell in row for name in PLACE.findall(cell)]


def test_everything_that_a_plan_waits_for_is_in_the_table_with_its_bound() -> None:
    table = {row[0].strip("`"): row[1:] for row in rows("Of the plan")}
    assert list(table) == [reason.value for reason in WaitingFor]
    assert all(len(cells) == 3 and all(cells) for cells in table.values())


def test_every_bound_is_in_the_table_and_none_that_is_gone() -> None:
    named = places("With a time")
    bounded = [wait for wait in found() if wait.bound]
    assert sorted(named) == sorted(waits.constants(PACKAGE, bounded))


def test_every_wait_without_a_time_is_in_the_table_with_what_ends_it_and_none_that_is_gone() -> None:
    named = places("Without a time of their own")
    assert sorted(named) == sorted({wait.place for wait in found() if not wait.bound})


def test_the_figures_of_the_table_are_those_of_the_code() -> None:
    for row in rows("With a time"):
        for place, seconds in re.findall(r"`([^`]+:[^`]+)` (\d+(?:\.\d+)?) s", row[0]):
            file, _, name = place.partition(":")
            text = (PACKAGE / file).read_text()
            assert re.search(rf"^(?:    )?{name}(?:: float)? = {seconds}(?:\.0)?$", text, re.MULTILINE), place


UNBOUNDED = {
    "process": "def f(process):\n    process.wait()",
    "communicate": "def f(process):\n    return process.communicate()[0]",
    "awaited": "async def f(process):\n    await process.communicate()",
    "event": "async def f(event):\n    await event.wait()",
    "lock of files": "def f(file):\n    fcntl.flock(file, fcntl.LOCK_EX)",
    "lock": "def f(lock):\n    lock.acquire()",
    "thread": "def f(thread):\n    thread.join()",
    "queue": "def f(queue):\n    return queue.get()",
    "socket": "def f(connection):\n    return connection.recv(10)",
    "socket without a time-out": "def f(connection):\n    connection.settimeout(None)\n    return connection.recv(10)",
    "child": "def f(pid):\n    os.waitpid(pid, 0)",
    "command": "def f():\n    subprocess.run(['git'])",
    "pipe": "def f(pipe):\n    return os.read(pipe, 1)",
    "future": "def f(loop, work):\n    asyncio.run_coroutine_threadsafe(work, loop).result()",
    "stream": "async def f(reader):\n    return await reader.readexactly(4)",
    "time-out of none": "async def f(reader):\n    async with asyncio.timeout(None):\n        return await reader.read(4)",
    "function within a time-out": (
        "async def f():\n    async with asyncio.timeout(3):\n        async def g(reader):\n"
        "            return await reader.read(4)"
    ),
    "poll": "def f(path):\n    while not path.exists():\n        time.sleep(1)",
    "poll for ever": "async def f(path):\n    while True:\n        await asyncio.sleep(1)",
}
BOUNDED = {
    "process": "def f(process):\n    process.wait(END_SECONDS)",
    "awaited": "async def f(process):\n    async with asyncio.timeout(END_SECONDS):\n        await process.communicate()",
    "waited for": "async def f(event):\n    await asyncio.wait_for(event.wait(), END_SECONDS)",
    "lock of files": "def f(file):\n    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "thread": "def f(thread):\n    thread.join(timeout=3)",
    "socket": "def f(connection):\n    connection.settimeout(3)\n    return connection.recv(10)",
    "child": "def f(pid):\n    os.waitpid(pid, os.WNOHANG)",
    "command": "def f():\n    subprocess.run(['git'], timeout=3)",
    "cancelled": "async def f(task):\n    task.cancel()\n    await asyncio.gather(task)",
    "poll": "def f(path, deadline):\n    while time.monotonic() < deadline:\n        time.sleep(1)",
    "poll with a way out": (
        "def f(path, deadline):\n    while True:\n        if time.monotonic() > deadline:\n            raise OSError\n"
        "        time.sleep(1)"
    ),
}
NO_WAITS = {
    "text": "def f(words):\n    return ', '.join(words)",
    "mapping": "def f(words):\n    return words.get('a')",
    "plan": "def f(view):\n    return view.wait(1, 'text')",
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_a_wait_without_an_end_is_found(name: str) -> None:
    found = list(waits.in_text(UNBOUNDED[name], "f.py"))
    assert [wait.bound for wait in found if wait.call != "asyncio.timeout"] == [""]


@pytest.mark.parametrize("name", BOUNDED)
def test_a_wait_with_an_end_is_told_from_it(name: str) -> None:
    seen = list(waits.in_text(BOUNDED[name], "f.py"))
    assert seen
    assert all(wait.bound for wait in seen)


@pytest.mark.parametrize("name", NO_WAITS)
def test_what_is_no_wait_is_none(name: str) -> None:
    assert list(waits.in_text(NO_WAITS[name], "f.py")) == []
