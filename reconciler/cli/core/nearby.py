"""Asks a running controller for what a command could find out itself: it has imported what takes most of a short command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconciler import __version__
from reconciler.errors import InvalidManifests, Problem, Refused, Unreachable

if TYPE_CHECKING:
    from reconciler.wire.manifests import Compare, Validate

SECONDS = 2.0
"""A controller that is busier than that saves no time."""
BYTES_MAX = 256 * 1024
"""Of larger ones, reading takes longer than importing; and a controller has other things to do."""


def asked(
    socket: Path, question: type[Validate | Compare], files: Mapping[str, bytes], **more: Any
) -> dict[str, Any] | None:
    """Return the answer of a controller of this version; None if there is none, and the command has to do it itself.

    Raises ``InvalidManifests`` if the answer has problems.
    """
    from reconciler.cli.core.client import Client

    if sum(map(len, files.values())) > BYTES_MAX:
        return None
    try:
        texts = {name: content.decode() for name, content in files.items()}
        with Client(socket, SECONDS) as client:
            body: dict[str, Any] = client.ask(question(__version__, texts, **more))
    except (UnicodeDecodeError, Unreachable, Refused):
        return None
    if body["problems"]:
        raise InvalidManifests(tuple(Problem(**each) for each in body["problems"]))
    return body
