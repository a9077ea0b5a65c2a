"""The keys that may open the console, as the controller's objects have them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.console.snapshot import Body, Snapshot
from reconciler.wire.keys import AccessKey, KeyRing, SecretHash, hash_of, looks_mistyped


@dataclass(frozen=True, slots=True)
class Admitted:
    """A key that may open the console."""

    key: str
    """Its name."""
    hash: str
    """Of the secret that was shown."""
    operate: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a secret opens nothing: ``text`` for whoever sent it."""

    text: str
    key: str = ""
    """The name of its key where it has one."""


class Rights:
    """Which secrets open the console."""

    def __init__(self, ring: KeyRing, allowed: Mapping[str, str], scraping: Collection[str] = ()) -> None:
        self._ring = ring
        self._scraping = scraping
        """Names of the keys that may read metrics, whatever else they may do."""
        self._allowed = allowed
        """``view`` or ``operate`` by the names of keys."""

    def admit(self, secret: str, now: float, scrape: bool = False) -> Admitted | Refusal:
        """Return what a secret opens. ``now`` is in seconds since the Unix epoch. ``scrape``: only metrics are asked for."""
        hashed = hash_of(secret)
        if self._ring.key(hashed) is None:
            mistyped = looks_mistyped(secret)
            return Refusal(
                "The key was cut off or mistyped: its checksum is wrong."
                if mistyped
                else "No key has this secret."
            )
        return self.look(hashed, now, scrape)

    def look(self, hashed: str, now: float, scrape: bool = False) -> Admitted | Refusal:
        """Return what the secret with this hash opens now."""
        objection = self._ring.objection(hashed, now)
        key = self._ring.key(hashed)
        name = key.name if key is not None else ""
        if objection is not None:
            return Refusal(objection.text[:1].upper() + objection.text[1:] + ".", name)
        right = self._allowed.get(name, "none")
        if right == "none" and not (scrape and name in self._scraping):
            metrics = ", or spec.metrics to true to let it read these alone" if scrape else ""
            return Refusal(
                f"The key {name!r} may not open the console. To allow it, set spec.console of the ApiKey to view or operate{metrics}: "
                f"reconciler edit apikey/{name}",
                name,
            )
        return Admitted(name, hashed, right == "operate")


def rights_of(snapshot: Snapshot) -> Rights:
    """Return the rights of the keys that are in force."""
    keys = snapshot.of_kind("ApiKey")
    return Rights(
        KeyRing([_key(each) for each in keys]),
        {each["metadata"]["name"]: each["spec"].get("console", "none") for each in keys},
        {each["metadata"]["name"] for each in keys if each["spec"].get("metrics", False)},
    )


def _key(each: Body) -> AccessKey:
    spec = each["spec"]
    previous = (SecretHash(old["hash"], _seconds(old["until"])) for old in spec.get("previous", ()))
    return AccessKey(
        each["metadata"]["name"],
        (SecretHash(spec["hash"]), *previous),
        expires=_seconds(spec.get("expires")),
        revoked=spec.get("revoked", False),
    )


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0
