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
    regex: Optional[str] = None
    """A regular expression that the whole content matches, in place of a schema."""
    schema_path: str = "response_format"
    """Where the request has the schema or the regular expression: what an error names."""
    tool_paths: Tuple[str, ...] = ()
    """Where it has the parameters of each tool; empty: as chat completions have them."""

    @property
    def free(self) -> bool:
        """Return whether the answer may be whatever the model writes."""
        held = self.schema is not None or self.regex is not None or self.calls_required
        return not (held or self.callable or self.strict)

    def parameters_path(self, index: int) -> str:
        """Return where the request has the parameters of a tool."""
        if index < len(self.tool_paths):
            return self.tool_paths[index]
        return f"tools[{index}].function.parameters"


FREE = Form()
"""Whatever the model writes."""
