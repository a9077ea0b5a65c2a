"""The newest version of a client, as PyPI and npm have it, and how it does beside the one that the page names."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence

from .outcome import Outcome, lined
from .rows import JAVA, PYTHON, Client

SECONDS_MAX = 120.0
UNKNOWN = "unknown"
"""The version of a client whose registry does not answer."""


def newest(client: Client) -> Client:
    """Return the client with the newest version of each of its packages. Raises ``CalledProcessError`` or ``TimeoutExpired``
    where the registry does not answer, and ``FileNotFoundError`` without npm."""
    return _with_versions(client, lambda name: _newest(client.kind, name))


def unknown(client: Client) -> Client:
    """Return the client with versions that nobody knows."""
    return _with_versions(client, lambda name: UNKNOWN)


def compared(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the table of pinned and newest versions, and a line for each client whose newest version alone fails or is unknown.

    The outcomes of a client follow each other, that of the pinned version first.
    """
    rows = [["client", "surface", "pinned", "", "newest", ""]]
    worse = []
    for (name, surface), group in itertools.groupby(
        outcomes, lambda each: (each.client.name, each.client.surface)
    ):
        pinned, *others = group
        last = others[0] if others else pinned
        rows.append([name, surface, pinned.client.version, _word(pinned), last.client.version, _word(last)])
        if last.client.version == UNKNOWN:
            worse.append(f"{name}: nobody says which version is the newest: {last.features['text']}")
        elif pinned.passed and not last.passed:
            failed = ", ".join(feature for feature, why in last.features.items() if why)
            worse.append(
                f"{name}: {last.client.version} fails where {pinned.client.version} passes: {failed}"
            )
    return [*lined(rows), *worse]


def _word(outcome: Outcome) -> str:
    return "passed" if outcome.passed else "failed"


def _with_versions(client: Client, version: Callable[[str], str]) -> Client:
    if client.kind == JAVA:
        return client  # it is the JDK of the machine
    separator = "==" if client.kind == PYTHON else "@"
    names = [package.rpartition(separator)[0] for package in client.packages]
    return dataclasses.replace(client, packages=[f"{name}{separator}{version(name)}" for name in names])


@functools.cache
def _newest(kind: str, name: str) -> str:
    if kind == PYTHON:
        printed = _ask(sys.executable, "-m", "pip", "index", "versions", name.partition("[")[0])
        return printed.partition("(")[2].partition(")")[0]
    return _ask("npm", "view", name, "version").strip()


def _ask(*command: str) -> str:
    return subprocess.run(
        command,
        check=True,
        timeout=SECONDS_MAX,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stdout
