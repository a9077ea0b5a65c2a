"""Who sends a request, and the keys by which it is known. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from reconciler.gateway.errors import ApiError, key_expired, key_revoked, key_unknown
from reconciler.wire.keys import AccessKey, SecretHash, hash_of, looks_mistyped


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


class KeyRing:
    """The keys of one version of the routes."""

    def __init__(self, keys: Sequence[AccessKey] = ()) -> None:
        self.keys = {key.name: key for key in keys}
        self._by_hash: dict[str, tuple[AccessKey, SecretHash]] = {}
        for key in keys:
            for secret in key.secrets:
                self._by_hash.setdefault(secret.hash, (key, secret))

    def identify(self, secret: str, now: float) -> Caller:
        """Return who sends a secret. ``now`` is in seconds since the Unix epoch. Raises ``ApiError`` (401).

        The secret is looked up by its hash, which nobody can choose: how long that takes says nothing of others.
        """
        hashed = hash_of(secret)
        ended = self.ended(hashed, now)
        if ended is not None:
            raise ended if hashed in self._by_hash else key_unknown(looks_mistyped(secret))
        key, _ = self._by_hash[hashed]
        return Caller(f"key {key.name}", key, hashed)

    def ended(self, hashed: str, now: float) -> ApiError | None:
        """Return why the secret with this hash is refused; None where it is not."""
        found = self._by_hash.get(hashed)
        if found is None:
            return key_revoked("the API key was removed")
        key, secret = found
        if key.revoked:
            return key_revoked(f"the API key {key.name!r} was revoked")
        if key.expires and key.expires <= now:
            return key_expired(f"the API key {key.name!r} has expired")
        if secret.until and secret.until <= now:
            return key_expired(f"the API key {key.name!r} has a newer secret, and this one has ended")
        return None
