"""Gateway to controller: the file of prompts that are quarantined because they ended groups.

The gateway replaces the file, and reads it again when it starts. It has hashes and sizes, never the text of a prompt.
"""

from __future__ import annotations

import dataclasses
from typing import Tuple


@dataclasses.dataclass(frozen=True)
class EndedGroup:
    """A group that ended while it answered a prompt."""

    replica: int
    epoch: int


@dataclasses.dataclass(frozen=True)
class QuarantinedPrompt:
    """A prompt that is refused, because groups ended while they answered it, and other groups did not."""

    model: str
    digest: str
    """SHA-256 of the prompt, in hexadecimal."""
    request: str
    """The id of the request that it last came with."""
    shape: str
    """Its size, for people: numbers of messages, bytes, tokens and tools."""
    ended: Tuple[EndedGroup, ...]
    """The groups that it ended, oldest first."""
    at: float
    """When it was quarantined, in seconds since the Unix epoch."""
    until: float
    """When it may be sent again, in seconds since the Unix epoch."""


@dataclasses.dataclass(frozen=True)
class QuarantinedPrompts:
    """The file: one JSON object, replaced atomically."""

    version: int
    prompts: Tuple[QuarantinedPrompt, ...] = ()
