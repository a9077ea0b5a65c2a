"""Reads the gateway's own files. Its status is valid only while its process runs."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from reconciler.state import GatewayObservation, LimitsObservation, ServedCertificate
from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.figures import GatewayFigures
from reconciler.wire.keys import KeysUsage, KeyUsage
from reconciler.wire.prompts import QuarantinedPrompt, QuarantinedPrompts


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
            _quarantined(prompts),
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
    try:
        figures = from_wire(GatewayFigures, json.loads(path.read_bytes()))
        os.kill(figures.pid, 0)
    except (OSError, ValueError, WireError):
        return None
    return figures


def _quarantined(path: Path) -> tuple[QuarantinedPrompt, ...]:
    """Return the prompts in the gateway's file; none without a valid file."""
    try:
        return from_wire(QuarantinedPrompts, json.loads(path.read_bytes())).prompts
    except (OSError, ValueError, WireError):
        return ()


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
