"""Asks a running controller for results that a command could compute itself: imports take most of a short command's time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reconciler.errors import InvalidManifests, Problem, Refused, Unreachable
from reconciler.source.edition import edition

from .app import Settings

if TYPE_CHECKING:
    from reconciler.wire.manifests import Compare, Validate

SECONDS = 2.0
"""Longest wait: a slower controller saves no time."""


def asked(
    settings: Settings, question: type[Validate | Compare], files: Mapping[str, bytes], **more: Any
) -> dict[str, Any] | None:
    """Return the answer of a controller on this machine that runs the same code; None if there is none, and the command must
    compute it itself.

    Raises ``InvalidManifests`` if the answer has problems.
    """
    from reconciler.cli.core.client import Client
    from reconciler.wire.manifests import BYTES_MAX

    if settings.away is not None or sum(map(len, files.values())) > BYTES_MAX:
        return None
    try:
        texts = {name: content.decode() for name, content in files.items()}
        with Client(settings.socket, SECONDS, start_seconds=0.0) as client:
            body: dict[str, Any] = client.ask(question(edition(), texts, **more))
    except (UnicodeDecodeError, Unreachable, Refused):
        return None
    if body["problems"]:
        raise InvalidManifests(tuple(Problem(**each) for each in body["problems"]))
    return body
