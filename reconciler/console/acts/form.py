"""The form of an act: the typed fields, and the token that it must have. Pure except for the secret of tokens."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

TOKEN_SECONDS = 3600.0
"""Longest time that a page may stay open before its form is sent."""
REASON_MAX = 500
REPLICAS_MAX = 20
"""Most characters of a number of replicas; the controller refuses a text that is no number."""
DURATIONS = {
    "": None,
    "30m": 1800.0,
    "1h": 3600.0,
    "2h": 7200.0,
    "8h": 28_800.0,
    "24h": 86_400.0,
    "168h": 604_800.0,
}
"""Durations of operations, as the command line writes them, in seconds; None: until somebody ends it."""
_SPACE = re.compile(r"\s+")
_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_RUN = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Typed:
    reason: str = ""
    duration: str = ""
    """A key of ``DURATIONS``."""
    force: bool = False
    token: str = ""
    replicas: str = ""
    """As it was typed; empty if the act takes no number, or none was typed yet."""
    to: str = ""
    """The commit of ``main`` to return to; empty for the one before the last change."""
    run: str = ""
    """The number of the run to cancel; empty for other acts."""

    @property
    def seconds(self) -> float | None:
        return DURATIONS[self.duration]


def typed(fields: Mapping[str, str]) -> Typed:
    """Return the fields of a form or an address; a value that is not allowed counts as left out."""
    duration = fields.get("for", "")
    return Typed(
        _SPACE.sub(" ", fields.get("reason", "")).strip()[:REASON_MAX],
        duration if duration in DURATIONS else "",
        fields.get("force") == "yes",
        fields.get("token", ""),
        fields.get("replicas", "").strip()[:REPLICAS_MAX],
        to if _COMMIT.fullmatch(to := fields.get("to", "")) else "",
        run if _RUN.fullmatch(run := fields.get("run", "")) else "",
    )


class Tokens:
    """Tokens of forms: only a page of this console has one, for one act and one person, for an hour."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def make(self, what: str, now: float) -> str:
        """Return a token. ``what``: path and person. ``now``: seconds since the Unix epoch."""
        return f"{int(now)}.{self._mark(what, int(now))}"

    def good(self, token: str, what: str, now: float) -> bool:
        """Return whether a token was made for this, not long ago."""
        at, _, mark = token.partition(".")
        if not at.isascii() or not at.isdecimal() or len(at) > 12:
            return False
        fresh = -60 <= now - int(at) <= TOKEN_SECONDS
        return fresh and hmac.compare_digest(mark.encode(), self._mark(what, int(at)).encode())

    def _mark(self, what: str, at: int) -> str:
        return hmac.new(self._secret, f"{at} {what}".encode(), sha256).hexdigest()
