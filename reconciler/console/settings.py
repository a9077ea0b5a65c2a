"""Where the console is, and where it listens and by which names: as the Gateway declares it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.resources.gateway import CONSOLE_LISTEN
from reconciler.wire.front import Tls

from .snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Places:
    """What the console has around it: files of its home, and a clock."""

    controller: Path
    """The controller's socket."""
    state: Path
    """The file where it says where it listens."""
    repo: Path
    """The cluster repository."""
    clock: Callable[[], float]
    """Returns seconds since the Unix epoch."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the Gateway declares."""

    listen: str | None
    """Address and port; None where no console is wanted."""
    keys: bool = False
    """Whether whoever opens it must log in."""
    hosts: tuple[str, ...] = ()
    """Further names by which browsers may call it."""
    tls: Tls | None = None
    """Its certificate; None where it speaks plain HTTP."""
    read_only: bool = False
    """Whether nobody may change anything in it."""
    tls_proxy: bool = False
    """Whether browsers that call it by one of ``hosts`` speak TLS with a proxy in front of it."""


def settings_of(snapshot: Snapshot, keys_before: bool = False) -> Settings:
    """Return what the Gateway declares; without one, or before it is known, the console is on loopback.

    What an answer leaves out, as an older controller's may, is as the kind has it by default. ``keys_before``: whether keys
    were needed when it was known last. Until it is known again, they still are.
    """
    gateways = snapshot.of_kind("Gateway")
    if not gateways:
        known = bool(snapshot.status.get("revision"))
        return Settings(CONSOLE_LISTEN, keys_before and not known)
    spec = gateways[0]["spec"]
    declared, auth, tls = spec.get("console", {}), spec.get("auth"), spec.get("tls")
    return Settings(
        declared.get("listen", CONSOLE_LISTEN) if declared.get("enabled", True) else None,
        keys_before if auth is None else auth["mode"] == "keys",
        tuple(spec.get("hosts", ())),
        Tls(tls["certificate"], tls["key"]) if tls else None,
        declared.get("readOnly", False),
        declared.get("tlsProxy", False),
    )
