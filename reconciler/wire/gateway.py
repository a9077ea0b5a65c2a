"""The settings of an endpoint that a Gateway declares in addition to its address: a part of the routes."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Tls:
    """Paths of PEM files on the gateway's machine; ``~`` is the home of its user."""

    certificate: str
    """The certificate, then those that lead to its authority."""
    key: str


@dataclasses.dataclass(frozen=True)
class LimitsStore:
    """The Valkey or Redis in which several gateways together count the use of keys. Paths are as in ``Tls``."""

    address: str
    """``host:port``."""
    prefix: str
    """Prefix of all names in the store."""
    user: str = ""
    password_file: str = ""
    tls: bool = False
    authority: str = ""
    """PEM file with the authority of its certificate; empty for the system's authorities."""


@dataclasses.dataclass(frozen=True)
class HookSecret:
    """The place of the secret of the webhook that reports news in the remote repository: a file, or a variable of the
    gateway's environment. The other field is empty."""

    file: str = ""
    env: str = ""


@dataclasses.dataclass(frozen=True)
class AccessLog:
    """The log with a line for each request, and its bounds."""

    max_bytes: int
    """A file that would become larger is rotated."""
    rotate_seconds: float
    """The length of the intervals, counted from the Unix epoch; each interval has its own file."""
    keep_files: int
    """Number of rotated files to keep."""
    keep_seconds: float
    """Time for which a rotated file is kept after its last line."""
    content: bool = False
    """True if another log has prompts and answers."""
