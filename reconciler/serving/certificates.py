"""The certificate of gateway and console, read again when its files change; an unusable pair never replaces a good
one."""

from __future__ import annotations

import dataclasses
import logging
import ssl
from datetime import datetime
from pathlib import Path

from reconciler.errors import Invalid
from reconciler.wire.gateway import Tls

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 1024 * 1024
_Signature = tuple[tuple[int, int, int] | None, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    names: tuple[str, ...]
    """Host names and addresses for which it is good."""
    expires: datetime
    """Earliest end of the chain's certificates, in UTC."""


class Certificates:
    """The certificate in force. ``follow`` sets its files, and reads them again if they have changed."""

    def __init__(self) -> None:
        self.wanted = False
        """True if connections should use TLS at all."""
        self.context: ssl.SSLContext | None = None
        """The context of new handshakes; None while there has been no good pair."""
        self.certificate: Certificate | None = None
        """The certificate in ``context``."""
        self.problem = ""
        """Why the files cannot be used as they are now."""
        self._tls: Tls | None = None
        self._signature: _Signature = ()

    def follow(self, tls: Tls | None) -> bool:
        """Use these files, if they are new or have changed. Return whether they were."""
        signature = _signature(tls)
        if tls == self._tls and signature == self._signature:
            return False
        self._tls, self._signature = tls, signature
        self.wanted = tls is not None
        if tls is None:
            self.context, self.certificate, self.problem = None, None, ""
            return True
        try:
            context, certificate = load(tls)
        except Invalid as error:
            self.problem = str(error)
            log.error("%s; %s", error, "the last good one is used" if self.context else "nobody can connect")
            return True
        if _signature(tls) != signature:  # the files were written meanwhile
            self._signature = ()
            return self.follow(tls)
        self.context, self.certificate, self.problem = context, certificate, ""
        log.info("the certificate for %s expires on %s", ", ".join(certificate.names), certificate.expires)
        return True


def load(tls: Tls) -> tuple[ssl.SSLContext, Certificate]:
    """Return a server's context with a certificate and its key. Raises ``Invalid`` with the fault of the files."""
    chain, key = _file(tls.certificate), _file(tls.key)
    certificate = _certificate(chain)
    secret = _read(key)
    if b"PRIVATE KEY-----" not in secret:
        raise Invalid(f"{key} has no private key in PEM form")
    if b"ENCRYPTED" in secret:
        raise Invalid(f"{key} needs a password; write it without one: openssl pkey -in {key} -out FILE")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(chain, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Invalid(f"the key in {key} is not that of the first certificate in {chain}") from None
        raise Invalid(f"{chain} and {key} cannot be used together: {error.reason or error}") from None
    except OSError as error:
        raise Invalid(f"{chain} or {key} cannot be read: {error.strerror}") from None
    return context, certificate


def _certificate(path: Path) -> Certificate:
    from cryptography import x509  # slow, and a gateway without TLS does not need it

    text = _read(path)
    try:
        chain = x509.load_pem_x509_certificates(text)
    except ValueError:
        raise Invalid(f"{path} has no certificate in PEM form") from None
    names: list[str] = []
    try:
        found = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += found.get_values_for_type(x509.DNSName)
        names += map(str, found.get_values_for_type(x509.IPAddress))
    except (x509.ExtensionNotFound, ValueError):
        pass  # clients will refuse it, and say why
    return Certificate(tuple(names), min(each.not_valid_after_utc for each in chain))


def _read(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise Invalid(f"{path} cannot be read: it is no file")
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None


def _signature(tls: Tls | None) -> _Signature:
    return () if tls is None else (_of_file(tls.certificate), _of_file(tls.key))


def _file(path: str) -> Path:
    """Return the file of a declared path; ``~nobody`` stays as it is, and is not found."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _of_file(path: str) -> tuple[int, int, int] | None:
    try:
        status = _file(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size
