"""The console's application on a snapshot, with keys or without, and a clock that a test sets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from reconciler.console.access.door import Doors
from reconciler.console.access.sessions import Sessions
from reconciler.console.app import build_app
from reconciler.console.feed import Feed
from reconciler.console.settings import settings_of
from reconciler.console.snapshot import Snapshot
from reconciler.source.git.repository import Author
from reconciler.wire.keys import hash_of, secret_of
from reconciler.wire.objects import ApiKey

from .snapshots import AT

OWNER = Author("Olga Owner", "olga@example.com")


@dataclass(slots=True)
class Time:
    """A clock that stands still."""

    now: float = AT

    def __call__(self) -> float:
        return self.now


def secret(number: int) -> str:
    """Another secret for each number."""
    return secret_of(number.to_bytes(32, "big"))


def key(name: str, number: int, console: str, **spec: Any) -> ApiKey:
    """An ApiKey as the controller's answer has it; its secret is ``secret(number)``."""
    spec = {"hash": hash_of(secret(number)), "previous": [], "revoked": False, "console": console, **spec}
    found: Any = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "ApiKey",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"conditions": []},
    }
    answer: ApiKey = found
    return answer


def with_keys(snapshot: Snapshot, *keys: ApiKey, **tls: Any) -> Snapshot:
    """The same cluster with keys on, which are these."""
    gateway: Any = {
        "kind": "Gateway",
        "metadata": {"name": "main"},
        "spec": {
            "auth": {"mode": "keys"},
            "console": {"enabled": True, "listen": "0.0.0.0:8480"},
            "hosts": [],
            **tls,
        },
        "status": {"conditions": []},
    }
    others = (each for each in snapshot.objects if each["kind"] not in ("Gateway", "ApiKey"))
    return replace(snapshot, objects=(*others, gateway, *keys), number=snapshot.number + 1)


def doors_of(snapshot: Snapshot, clock: Time | None = None) -> Doors:
    """What a console knows whose controller has answered this."""
    clock = clock or Time()
    feed = Feed(Path("/nobody"), clock)
    feed.snapshot = snapshot
    numbers = itertools.count()
    return Doors(
        feed,
        clock,
        owner=lambda: OWNER,
        settings=lambda: settings_of(feed.snapshot),
        sessions=Sessions(lambda: f"id-{next(numbers)}"),
    )


def client_of(doors: Doors, url: str = "http://127.0.0.1:8480") -> TestClient:
    """A browser at the console."""
    return TestClient(build_app(doors.feed, doors, doors.settings()), base_url=url, follow_redirects=False)
