"""Reads the files in which the services of a home report on themselves. The gateway's are valid only while its process
runs."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, TypeVar

from reconciler.state import GatewayObservation, LimitsObservation, ServedCertificate
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.figures import GatewayFigures
from reconciler.wire.keys import KeysUsage, KeyUsage
from reconciler.wire.prompts import QuarantinedPrompts
from reconciler.wire.supervision import Act, Supervision

T = TypeVar("T")


def observe_gateway(path: Path, prompts: Path, usage: Path) -> GatewayObservation | None:
    """Return the current gateway; None if it is not running. A gateway that cannot listen ends, and is restarted.

    ``path``: its status file. ``prompts``: the file of refused prompts. ``usage``: the file with the use of keys.
    """
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        problem = _text(body.get("problem")) or ""
        seen = GatewayObservation(
            int(body["pid"]),
            _text(body["endpoint"]),
            problem,
            int(body.get("token", 0)),
            found.prompts if (found := _read(QuarantinedPrompts, prompts)) else (),
            _text(body.get("shortage")) or "",
            _text(body.get("local")) or "",
            _certificate(body.get("certificate")),
            usage=_usage(usage),
            limits=limits_of(body.get("limits")),
            keys=_text(body.get("keys")),
        )
        if seen.endpoint is None:
            return seen
        os.kill(seen.pid, 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return seen


def observe_figures(path: Path) -> GatewayFigures | None:
    """Return the figures of requests at the running gateway; None if no gateway runs, or its file has no figures.
    ``path``: the file of its figures."""
    figures = _read(GatewayFigures, path)
    try:
        if figures is not None:
            os.kill(figures.pid, 0)
    except OSError:
        return None
    return figures


def observe_supervision(path: Path) -> tuple[Act, ...]:
    """Return the newest acts of `up` on services that gave no answer, the oldest first; none without a valid file."""
    found = _read(Supervision, path)
    return found.acts if found else ()


def observe_console(path: Path) -> str:
    """Return why the console does not listen as declared; empty if it does, or without a valid file."""
    try:
        state = json.loads(path.read_bytes())
        return str(state["problem"] or "") if isinstance(state, dict) else ""
    except (OSError, ValueError, LookupError):
        return ""


def _read(kind: type[T], path: Path) -> T | None:
    """Return the content of a file; None without a valid one."""
    try:
        return from_wire(kind, json.loads(path.read_bytes()))
    except (OSError, ValueError, WireError):
        return None


def _certificate(body: Any) -> ServedCertificate | None:
    """Return the gateway's report of its certificate. Raises ``ValueError``, ``TypeError`` or ``KeyError``."""
    if body is None:
        return None
    expires_at = body["expires_at"]
    return ServedCertificate(
        tuple(map(str, body["names"])),
        None if expires_at is None else float(expires_at),
        str(body["problem"]),
    )


def limits_of(body: Any) -> LimitsObservation | None:
    """Return a gateway's report of the limits. Raises ``ValueError``, ``TypeError`` or ``KeyError``."""
    if body is None:
        return None
    return LimitsObservation(
        int(body["gateways"]), str(body["store"]), bool(body["shared"]), str(body["problem"])
    )


def _usage(path: Path) -> tuple[KeyUsage, ...]:
    """Return the use of keys; nothing without a valid file."""
    try:
        status = path.stat()
        return _usage_as_of(path, status.st_ino, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, WireError):
        return ()


@functools.lru_cache(maxsize=1)
def _usage_as_of(path: Path, inode: int, changed: int, size: int) -> tuple[KeyUsage, ...]:
    return from_wire(KeysUsage, json.loads(path.read_bytes())).keys


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
