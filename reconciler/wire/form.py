"""What an answer has to look like, where a request asks for more than free text. Pure."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Form:
    """What an answer has to be from the end of its reasoning on. A rank enforces it while it decodes."""

    schema: Optional[str] = None
    """The JSON Schema, as JSON text, that the content satisfies; None: any text."""
    calls_required: bool = False
    """Whether the answer is at least one call, and nothing else."""
    callable: Tuple[str, ...] = ()
    """The tools that may be called; empty: all of the request's."""
    strict: Tuple[str, ...] = ()
    """The tools whose arguments satisfy the schema of their parameters. Where a call is required, those of all do."""


FREE = Form()
"""Whatever the model writes."""
