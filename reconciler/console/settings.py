"""Where the console listens, and by which names: as the Gateway declares it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.resources.gateway import CONSOLE_LISTEN

from .snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Settings:
    """What the Gateway declares."""

    listen: str | None
    """Address and port; None where no console is wanted."""
    keys: bool = False
    """Whether whoever opens it must log in."""
    hosts: tuple[str, ...] = ()
    """Further names by which browsers may call it."""


def settings_of(snapshot: Snapshot) -> Settings:
    """Return what the Gateway declares; without one, or before it is known, the console is on loopback."""
    gateways = snapshot.of_kind("Gateway")
    if not gateways:
        return Settings(CONSOLE_LISTEN)
    spec = gateways[0]["spec"]
    declared = spec["console"]
    return Settings(
        declared["listen"] if declared["enabled"] else None,
        spec["auth"]["mode"] == "keys",
        tuple(spec["hosts"]),
    )
