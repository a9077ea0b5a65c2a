"""The certificate that the ranks of a group show each other: one for all of them, with its private key.

It is derived from the group's secret alone, so that each rank gets the same, whenever it starts.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a group of ranks")])
_ALWAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
"""Only the ranks of one epoch trust it, and a machine's clock may be wrong. RFC 5280, 4.1.2.5, has the second
time for certificates without an end."""


def secret(entropy: str, replica: object, epoch: int) -> str:
    """Derive a group's secret, of 256 bits."""
    return hashlib.sha256(f"{entropy}/{replica}/{epoch}".encode()).hexdigest()


def certificate(secret: str) -> str:
    """Return an Ed25519 key and the certificate that it has signed itself, in PEM, derived from a group's secret."""
    key = Ed25519PrivateKey.from_private_bytes(_derived(secret, "key"))
    serial = int.from_bytes(_derived(secret, "serial")[:16], "big") or 1
    made = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), serial, *_ALWAYS)
        .sign(key, algorithm=None)
        .public_bytes(Encoding.PEM)
    )
    return (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made).decode("ascii")


def _derived(secret: str, purpose: str) -> bytes:
    return hashlib.sha256(f"{purpose} of {secret}".encode()).digest()
