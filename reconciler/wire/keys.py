"""Keys of clients: their form for gateway and console, the check of their secrets, and the form of secrets.

A secret is ``reconciler_``, 256 random bits as 43 letters and digits, and a checksum of 6. So a scanner finds one in a text
by its form alone (``SECRET_PATTERN``), and a truncated or mistyped secret can be distinguished from an unknown one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import zlib
from typing import Dict, Optional, Sequence, Tuple

PREFIX = "reconciler_"
RANDOM_BYTES = 32
SECRET_PATTERN = r"\breconciler_[0-9A-Za-z]{49}\b"
"""The pattern for secret scanners."""

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_DIGITS = 43
"""62 ** 43 is more than 2 ** 256."""
_CHECKSUM_DIGITS = 6
"""62 ** 6 is more than 2 ** 32."""


@dataclasses.dataclass(frozen=True)
class SecretHash:
    """A secret that a key is known by."""

    hash: str
    """``sha256:`` and the SHA-256 of the secret, in hexadecimal digits."""
    until: float = 0.0
    """Time from which it is refused, in seconds since the Unix epoch; 0: never."""


@dataclasses.dataclass(frozen=True)
class KeyLimits:
    """The most that a key may use; None: no limit."""

    requests_per_minute: Optional[int] = None
    tokens_per_minute: Optional[int] = None
    tokens_per_day: Optional[int] = None
    parallel_requests: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class AccessKey:
    """One ApiKey."""

    name: str
    secrets: Tuple[SecretHash, ...]
    """The present one first."""
    models: Tuple[str, ...] = ()
    """Deployments that it may use; empty: all."""
    limits: KeyLimits = KeyLimits()
    expires: float = 0.0
    """Time from which it is refused, in seconds since the Unix epoch; 0: never."""
    revoked: bool = False
    metrics: bool = False
    """True if it may read the gateway's metrics."""

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models


@dataclasses.dataclass(frozen=True)
class Objection:
    """Why a secret is refused."""

    kind: str
    """``unknown``, ``revoked`` or ``expired``."""
    text: str


class KeyRing:
    """The keys in force, with the check of their secrets."""

    def __init__(self, keys: Sequence[AccessKey] = ()) -> None:
        self.keys = {key.name: key for key in keys}
        self._by_hash: Dict[str, Tuple[AccessKey, SecretHash]] = {}
        for key in keys:
            for secret in key.secrets:
                self._by_hash.setdefault(secret.hash, (key, secret))

    def key(self, hashed: str) -> Optional[AccessKey]:
        """Return the key with this hash, whether it is good or not; None where there is none.

        A secret is looked up by its hash, which nobody can choose: the time that this takes reveals nothing about
        others.
        """
        found = self._by_hash.get(hashed)
        return found[0] if found is not None else None

    def objection(self, hashed: str, now: float) -> Optional[Objection]:
        """Return why the secret with this hash is refused; None where it is not. ``now`` is in seconds since the Unix epoch."""
        found = self._by_hash.get(hashed)
        if found is None:
            return Objection("unknown", "the API key was removed")
        key, secret = found
        if key.revoked:
            return Objection("revoked", f"the API key {key.name!r} was revoked")
        if key.expires and key.expires <= now:
            return Objection("expired", f"the API key {key.name!r} has expired")
        if secret.until and secret.until <= now:
            return Objection(
                "expired", f"the API key {key.name!r} has a newer secret, and this one has ended"
            )
        return None


def digest_of(keys: Sequence[AccessKey]) -> str:
    """Return a text that is equal for equal keys, by which a gateway reports its keys. Empty where there are none."""
    return hashlib.sha256(repr(tuple(keys)).encode()).hexdigest() if keys else ""


def secret_of(random: bytes) -> str:
    """Return the secret of ``RANDOM_BYTES`` random bytes."""
    body = PREFIX + _in_digits(int.from_bytes(random, "big"), _RANDOM_DIGITS)
    return body + _checksum(body)


def hash_of(secret: str) -> str:
    """Return the hash by which manifests and the gateway know a secret."""
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def looks_mistyped(secret: str) -> bool:
    """Return whether a text begins like a secret of this product but is none: it was truncated or mistyped."""
    if not secret.startswith(PREFIX):
        return False
    body, checksum = secret[:-_CHECKSUM_DIGITS], secret[-_CHECKSUM_DIGITS:]
    return re.fullmatch(SECRET_PATTERN, secret) is None or _checksum(body) != checksum


def _checksum(body: str) -> str:
    return _in_digits(zlib.crc32(body.encode()), _CHECKSUM_DIGITS)


def _in_digits(number: int, count: int) -> str:
    digits = []
    for _ in range(count):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


# --- gateway to controller: the file of the use of keys -----------------------------------------------


@dataclasses.dataclass(frozen=True)
class KeyUsage:
    """The use of one key at one gateway."""

    name: str
    day: int
    """Day of ``tokens`` and ``requests``, in days since the Unix epoch (UTC)."""
    tokens: int = 0
    """Tokens of prompts and answers on this day."""
    requests: int = 0
    """Requests on this day."""
    last_used: int = 0
    """Seconds since the Unix epoch."""


@dataclasses.dataclass(frozen=True)
class KeysUsage:
    """The file: one JSON object, replaced atomically."""

    version: int
    keys: Tuple[KeyUsage, ...] = ()
