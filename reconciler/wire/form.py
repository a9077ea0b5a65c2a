"""The form of an answer, where a request asks for more than free text. Pure."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple


@dataclasses.dataclass(frozen=True)
class Form:
    """The form of an answer from the end of its reasoning on. A rank enforces it while it decodes."""

    schema: Optional[str] = None
    """The JSON Schema, as JSON text, that the content satisfies; None: any text."""
    calls_required: bool = False
    """True if the answer is at least one call, and nothing else."""
    callable: Tuple[str, ...] = ()
    """The tools that may be called; empty: all of the request's."""
    strict: Tuple[str, ...] = ()
    """The tools whose arguments satisfy the schema of their parameters. If a call is required, all tools' arguments
    do."""
    regex: Optional[str] = None
    """A regular expression that the whole content matches, in place of a schema."""
    schema_path: str = "response_format"
    """Place of the schema or the regular expression in the request, for errors."""
    tool_paths: Tuple[str, ...] = ()
    """Place of each tool's parameters in the request; empty: as in chat completions."""

    @property
    def free(self) -> bool:
        """Return whether the answer may be any text of the model."""
        held = self.schema is not None or self.regex is not None or self.calls_required
        return not (held or self.callable or self.strict)

    def parameters_path(self, index: int) -> str:
        """Return the place of a tool's parameters in the request."""
        if index < len(self.tool_paths):
            return self.tool_paths[index]
        return f"tools[{index}].function.parameters"


FREE = Form()
"""Any answer that the model writes."""
