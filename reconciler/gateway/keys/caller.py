"""Who sends a request, and the keys by which it is known. Pure."""

from __future__ import annotations

import dataclasses

from reconciler.gateway.errors import ApiError, key_expired, key_revoked, key_unknown
from reconciler.wire import keys
from reconciler.wire.keys import AccessKey, hash_of, looks_mistyped


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request: a key where keys are on, else whom its header or its address names."""

    client: str
    """Equal for requests that are treated alike, in queues for one."""
    key: AccessKey | None = None
    """None where keys are off, and on the paths that need none."""
    hash: str = ""
    """Of the secret that it sent."""

    @property
    def key_name(self) -> str:
        """Return the name of its key; empty where it has none."""
        return self.key.name if self.key is not None else ""

    def may_use(self, model: str) -> bool:
        """Return whether it may use a deployment."""
        return self.key is None or self.key.may_use(model)


class KeyRing(keys.KeyRing):
    """The keys of one version of the routes."""

    def identify(self, secret: str, now: float) -> Caller:
        """Return who sends a secret. ``now`` is in seconds since the Unix epoch. Raises ``ApiError`` (401)."""
        hashed = hash_of(secret)
        key = self.key(hashed)
        if key is None:
            raise key_unknown(looks_mistyped(secret))
        ended = self.ended(hashed, now)
        if ended is not None:
            raise ended
        return Caller(f"key {key.name}", key, hashed)

    def ended(self, hashed: str, now: float) -> ApiError | None:
        """Return why the secret with this hash is refused; None where it is not."""
        objection = self.objection(hashed, now)
        if objection is None:
            return None
        return key_expired(objection.text) if objection.kind == "expired" else key_revoked(objection.text)
