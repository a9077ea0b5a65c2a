"""Certificates that nobody vouches for but who is told to."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def made(
    names: tuple[str, ...] = ("localhost",),
    days: float = 90,
    password: bytes | None = None,
    addresses: tuple[str, ...] = ("127.0.0.1",),
) -> tuple[bytes, bytes]:
    """A certificate for ``names`` and ``addresses``, which ends in so many days, and its key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
    now = datetime.datetime.now(datetime.UTC)
    others = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=100))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([*map(x509.DNSName, names), *others]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed)
    return certificate.public_bytes(serialization.Encoding.PEM), private


def self_signed(folder: Path, addresses: tuple[str, ...] = ("127.0.0.1",)) -> Path:
    """A file with a certificate for ``localhost`` and ``addresses``, and its key."""
    certificate, key = made(addresses=addresses)
    file = folder / "certificate.pem"
    file.write_bytes(key + certificate)
    return file
