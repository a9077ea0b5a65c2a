"""What a Gateway declares of its endpoint beside its address: a part of the routes."""

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
    """The Valkey or Redis in which several gateways count together what keys use. Paths are as in ``Tls``."""

    address: str
    """``host:port``."""
    prefix: str
    """With what the names of all that is kept there begin."""
    user: str = ""
    password_file: str = ""
    tls: bool = False
    authority: str = ""
    """PEM file with the authority of its certificate; empty for those of the system."""


@dataclasses.dataclass(frozen=True)
class AccessLog:
    """The log with a line for each request, and its bounds."""

    max_bytes: int
    """A file that would become larger is rotated."""
    rotate_seconds: float
    """The length of the intervals, counted from the Unix epoch, each of which has a file of its own."""
    keep_files: int
    """How many rotated files are kept."""
    keep_seconds: float
    """How long a rotated file is kept after its last line."""
    content: bool = False
    """Whether another log has prompts and answers."""
