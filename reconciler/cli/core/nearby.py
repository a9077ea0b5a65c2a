"""Asks a running controller for results that a command could compute itself: imports take most of a short command's time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from reconciler.errors import InvalidManifests, Problem, Refused, Unreachable
from reconciler.source.edition import edition
from reconciler.source.yaml.pieces import Beside
from reconciler.wire.answers import Asks, ManifestProblems

from .app import Settings

A = TypeVar("A", bound=ManifestProblems)
SECONDS = 2.0
"""Longest wait: a slower controller saves no time."""


def asked(
    settings: Settings, question: Callable[[str, Mapping[str, str]], Asks[A]], files: Mapping[str, bytes]
) -> A | None:
    """Return the answer of a controller on this machine that runs the same code; None if there is none, and the command must
    compute it itself.

    Raises ``InvalidManifests`` if the answer has problems.
    """
    from reconciler.cli.core.client import Client
    from reconciler.wire.admin import MANIFESTS_BYTES_MAX

    of_jobs = any(isinstance(content, Beside) for content in files.values())
    if settings.away is not None or of_jobs or sum(map(len, files.values())) > MANIFESTS_BYTES_MAX:
        return None
    try:
        texts = {name: content.decode() for name, content in files.items()}
        with Client(settings.socket, SECONDS, start_seconds=0.0) as client:
            body = client.ask(question(edition(), texts))
    except (UnicodeDecodeError, Unreachable, Refused):
        return None
    if body["problems"]:
        raise InvalidManifests(tuple(Problem(**each) for each in body["problems"]))
    return body
