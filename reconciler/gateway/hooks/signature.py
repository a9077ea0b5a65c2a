"""Checks the sender of a webhook by the secret that both know. Pure. Comparisons take the same time for any message.

The first header of ``_SCHEMES`` that is there decides: a bad one is not rescued by another.

- ``X-Hub-Signature-256: sha256=HEX``: GitHub (docs.github.com, "Validating webhook deliveries").
- ``X-Forgejo-Signature: HEX``, ``X-Gitea-Signature: HEX``: Forgejo and Gitea (forgejo.org/docs/latest/user/webhooks).
- ``webhook-signature: v1,BASE64`` over id, time and body: GitLab's signing token (gitlab.com, merge request 230944), as the
  Standard Webhooks have it. Its secret begins with ``whsec_``.
- ``X-Gitlab-Token``: GitLab's secret token, as it is.
- ``X-Signature: sha256=HEX``: for your own senders; Flux's ``generic-hmac`` is the same.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping

STANDARD_PREFIX = "whsec_"
AGE_SECONDS_MAX = 300.0
"""The most that a signed time may be in the past or in the future."""

Headers = Mapping[str, str]


def sent_by_who_knows(secret: str, headers: Headers, body: bytes, now: float) -> bool:
    """Return whether the sender of ``body`` knows the secret. Names of ``headers`` are in lower case."""
    for name, check in _SCHEMES:
        if name in headers:
            return check(secret, headers[name], headers, body, now)
    return False


def _hex(secret: str, given: str, headers: Headers, body: bytes, now: float) -> bool:
    return _same(_digest(secret.encode(), body).hex(), given.removeprefix("sha256="))


def _token(secret: str, given: str, headers: Headers, body: bytes, now: float) -> bool:
    return _same(secret, given)


def _standard(secret: str, given: str, headers: Headers, body: bytes, now: float) -> bool:
    id, moment = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if (
        not moment.isascii()
        or not moment.isdigit()
        or len(moment) > 12
        or abs(now - int(moment)) > AGE_SECONDS_MAX
    ):
        return False
    try:
        key = base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return False
    expected = base64.b64encode(_digest(key, f"{id}.{moment}.".encode() + body)).decode()
    good = [_same(f"v1,{expected}", one) for one in given.split(" ")]
    return any(good)


def _digest(key: bytes, content: bytes) -> bytes:
    return hmac.new(key, content, hashlib.sha256).digest()


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogateescape"))


_SCHEMES: tuple[tuple[str, Callable[[str, str, Headers, bytes, float], bool]], ...] = (
    ("x-hub-signature-256", _hex),
    ("x-forgejo-signature", _hex),
    ("x-gitea-signature", _hex),
    ("webhook-signature", _standard),
    ("x-gitlab-token", _token),
    ("x-signature", _hex),
)
