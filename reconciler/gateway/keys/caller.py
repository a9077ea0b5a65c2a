"""The sender of a request, and the keys that identify it. Pure."""

from __future__ import annotations

import dataclasses

from reconciler.gateway.errors import ApiError, key_expired, key_revoked, key_unknown
from reconciler.wire import keys
from reconciler.wire.keys import AccessKey, hash_of, looks_mistyped


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request: a key while keys are on, else the client that its header or its address identifies."""

    client: str
    """Equal for requests of one client, for instance in queues."""
    key: AccessKey | None = None
    """None while keys are off, and on paths that need no key."""
    hash: str = ""
    """The hash of the secret that it sent."""

    @property
    def key_name(self) -> str:
        """Return the name of its key; empty if it has none."""
        return self.key.name if self.key is not None else ""

    def may_use(self, model: str) -> bool:
        return self.key is None or self.key.may_use(model)


class KeyRing(keys.KeyRing):
    """The keys of one version of the routes."""

    def identify(self, secret: str, now: float) -> Caller:
        """Return the sender of a secret. ``now`` is in seconds since the Unix epoch. Raises ``ApiError`` (401)."""
        hashed = hash_of(secret)
        key = self.key(hashed)
        if key is None:
            raise key_unknown(looks_mistyped(secret))
        ended = self.ended(hashed, now)
        if ended is not None:
            raise ended
        return Caller(f"key {key.name}", key, hashed)

    def ended(self, hashed: str, now: float) -> ApiError | None:
        """Return why the secret with this hash is refused; None if it is not."""
        objection = self.objection(hashed, now)
        if objection is None:
            return None
        return key_expired(objection.text) if objection.kind == "expired" else key_revoked(objection.text)
