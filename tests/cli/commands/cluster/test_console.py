"""`console`: the URL of the console that runs, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.bootstrap import CONSOLE, Home
from reconciler.services.lock import held
from tests.cli.conftest import Cli

URL = "http://127.0.0.1:8480/"


@contextmanager
def running(home: Path, **state: object) -> Iterator[None]:
    """A console that runs and has written its state."""
    home.mkdir(exist_ok=True)
    place = Home(home)
    with held(place.lock_of(CONSOLE), "console"):
        if state:
            place.console.write_text(json.dumps({"url": None, "keys": False, "problem": "", **state}))
        yield


def test_it_says_the_url_alone(cli: Cli, home: Path) -> None:
    with running(home, url=URL):
        found = cli("console")
    assert (found.code, found.out, found.err) == (0, f"{URL}\n", "")


def test_a_console_with_keys_says_beside_it_how_to_make_one(cli: Cli, home: Path) -> None:
    with running(home, url=URL, keys=True):
        found, data = cli("console"), cli("console", "-o", "json")
    assert (found.code, found.out) == (0, f"{URL}\n")
    assert "reconciler key create NAME --console view" in found.err
    assert json.loads(data.out) == {"url": URL, "keys": True}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "does not listen yet"),
        ({"url": None}, "`spec.console.enabled` of the Gateway is false"),
        ({"url": None, "problem": "127.0.0.1:8480 is taken"}, "127.0.0.1:8480 is taken"),
    ],
)
def test_one_that_listens_nowhere_says_why(state: dict[str, object], said: str, cli: Cli, home: Path) -> None:
    with running(home, **state):
        found = cli("console")
    assert (found.code != 0, found.out) == (True, "")
    assert said in found.err


def test_without_a_console_it_says_what_starts_one(cli: Cli, home: Path) -> None:
    with running(home, url=URL):
        pass
    found = cli("console")
    assert (found.code != 0, found.out) == (True, "")
    assert "start it with: reconciler up" in found.err
