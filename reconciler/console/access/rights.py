"""The keys that may open the console, from the controller's objects. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.console.snapshot import Snapshot
from reconciler.wire.keys import AccessKey, KeyRing, SecretHash, hash_of, looks_mistyped
from reconciler.wire.objects import ApiKey


@dataclass(frozen=True, slots=True)
class Admitted:
    """A key that may open the console."""

    key: str
    """Its name."""
    hash: str
    """Of the shown secret."""
    operate: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a secret opens nothing: ``text`` is for the sender."""

    text: str
    key: str = ""
    """The name of its key, if it has one."""


class Rights:
    def __init__(self, ring: KeyRing, allowed: Mapping[str, str], scraping: Collection[str] = ()) -> None:
        self._ring = ring
        self._scraping = scraping
        """Names of the keys that may read metrics, even if they may do nothing else."""
        self._allowed = allowed
        """``none``, ``view`` or ``operate`` by the names of keys."""

    def admit(self, secret: str, now: float, scrape: bool = False) -> Admitted | Refusal:
        """Return the right of a secret. ``now`` is in seconds since the Unix epoch. ``scrape``: only to read metrics."""
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
        """Return the right of the secret with this hash now."""
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
    keys = snapshot.keys
    return Rights(
        KeyRing([_key(each) for each in keys]),
        {each["metadata"]["name"]: each["spec"].get("console", "none") for each in keys},
        {each["metadata"]["name"] for each in keys if each["spec"].get("metrics", False)},
    )


def _key(each: ApiKey) -> AccessKey:
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
