"""The fields that ``docs/api.md`` promises to programs are what the commands print, on a real controller."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.live import Live, live

from .newcomer import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
ROWS = [
    (command, tuple(re.findall(r"`([^`]+)`", fields)))
    for command, fields in re.findall(
        r"^\| `([^`]+)` \|(.*)\|$", PAGE.partition("## Answers")[0], re.MULTILINE
    )
]
ANSWERS = {
    command: set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
    for command, table in re.findall(r"^### (.+)\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
}
"""The fields of each answer."""
MAPPINGS = tuple(f"{path}." for path in re.findall(r"^\| `([^`]+)` \| object \|", PAGE, re.MULTILINE))
"""Fields whose own fields people choose."""
SERVED = ("verify DEPLOYMENT", "model verify NAME")
"""Commands that need a group that serves, or weights of a hub: their tests have the types of the answers."""


def values(body: Any, path: str) -> list[Any]:
    """All values at a path such as ``items[].metadata.name``. Raises ``KeyError`` where a field is missing."""
    found = [body]
    for part in path.split("."):
        name = part.removesuffix("[]")
        found = [each[name] for each in found]
        if part.endswith("[]"):
            found = [one for each in found for one in each]
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        made.run("wait", "deployment/tiny", "--for=condition=Stalled", "--timeout=60s")
        yield made


@pytest.mark.second_tier
@pytest.mark.parametrize(("command", "fields"), ROWS, ids=[row[0] for row in ROWS])
def test_a_command_prints_the_fields_that_stay(command: str, fields: tuple[str, ...], cluster: Live) -> None:
    done = cluster.run(*shlex.split(command), "-o", "json")
    assert done.returncode <= 1, done.stderr
    body = json.loads(done.stdout)
    for field in fields:
        assert values(body, field), f"nothing at {field}"


def test_the_page_has_the_commands_that_programs_use() -> None:
    told = {row[0].split()[0] for row in ROWS} | ANSWERS.keys()
    assert {"get", "describe", "trace", "events", "incidents", "doctor", "plan", "history", "top"} <= told


def paths(body: Any, begin: str = "") -> Iterator[str]:
    """The paths of everything that is no object and no list, as the page writes them."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from paths(value, f"{begin}.{name}" if begin else name)
    elif isinstance(body, list):
        for value in body:
            yield from paths(value, f"{begin}[]")
    else:
        yield begin


@pytest.mark.second_tier
@pytest.mark.parametrize("command", [command for command in ANSWERS if command not in SERVED])
def test_an_answer_has_the_fields_of_the_page_and_no_others(command: str, cluster: Live) -> None:
    history = json.loads(cluster.run("history", "-o", "json").stdout)
    done = cluster.run(*command.replace("REVISION", history["items"][-1]["revision"]).split(), "-o", "json")
    body = json.loads(done.stdout)
    assert {path for path in paths(body) if not path.startswith(MAPPINGS)} <= ANSWERS[command]
    assert body.keys() == {re.split(r"[.\[]", path)[0] for path in ANSWERS[command]}
