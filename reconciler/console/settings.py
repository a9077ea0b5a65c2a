"""The console's places, and its settings as the Gateway declares them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.resources.gateway import CONSOLE_LISTEN
from reconciler.wire.gateway import Tls
from reconciler.wire.objects import ConsoleSpec

from .snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Places:
    """The console's surroundings: files of its home, and a clock."""

    controller: Path
    """The controller's socket."""
    state: Path
    """The file to which it writes the address on which it listens."""
    repo: Path
    """The cluster repository."""
    clock: Callable[[], float]
    """Returns seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Settings:
    listen: str | None
    """Address and port; None for no console."""
    keys: bool = False
    """True if people must log in to open it."""
    hosts: tuple[str, ...] = ()
    """Further names by which browsers may call it."""
    tls: Tls | None = None
    """Its certificate; None for plain HTTP."""
    read_only: bool = False
    """True if nobody may change anything in it."""
    tls_proxy: bool = False
    """True if browsers that call it by one of ``hosts`` speak TLS with a proxy in front of it."""


def settings_of(snapshot: Snapshot, keys_before: bool = False) -> Settings:
    """Return the settings that the Gateway declares; without one, or before it is known, the console is on loopback.

    A field that an older controller leaves out has the kind's default. ``keys_before``: the last known value of ``keys``,
    which applies until the Gateway is known again.
    """
    gateway = snapshot.gateway
    if gateway is None:
        known = bool(snapshot.status.get("revision"))
        return Settings(CONSOLE_LISTEN, keys_before and not known)
    spec = gateway["spec"]
    declared, auth, tls = spec.get("console") or ConsoleSpec(), spec.get("auth"), spec.get("tls")
    return Settings(
        declared.get("listen", CONSOLE_LISTEN) if declared.get("enabled", True) else None,
        keys_before if auth is None else auth["mode"] == "keys",
        tuple(spec.get("hosts", ())),
        Tls(tls["certificate"], tls["key"]) if tls else None,
        declared.get("readOnly", False),
        declared.get("tlsProxy", False),
    )
