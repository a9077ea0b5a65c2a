"""Dialogues as pieces of text with a weight: how they are written down for the model.

The layout is that of `chat_template.jinja`; `tests/models` compares the two. A piece's weight says
how much the loss counts its tokens: answers fully, copied values more, everything else a little.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROMPT, ANSWER, VALUE = 0.0, 1.0, 2.0

Piece = tuple[str, float]


@dataclass
class Tool:
    """A tool that is offered: its name, the names of its parameters and what it is for."""

    name: str
    parameters: list[str]
    description: str
    verb: str = ""
    nouns: list[str] = field(default_factory=list)
    integer: str | None = None

    def line(self) -> str:
        """Write the tool as the chat template does."""
        names = list(self.parameters)
        if self.integer:
            names.append(f"{self.integer}: integer")
        return f"{self.name}({', '.join(names)})" + (f" {self.description}" if self.description else "")

    def schema(self) -> dict[str, Any]:
        """Write the tool as an OpenAI client offers it."""
        properties: dict[str, Any] = {name: {"type": "string"} for name in self.parameters}
        if self.integer:
            properties[self.integer] = {"type": "integer"}
        parameters = {"type": "object", "properties": properties, "required": self.parameters[:1]}
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


@dataclass
class Dialogue:
    """A conversation under construction: its pieces, and the tools it offers."""

    tools: list[Tool] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)

    def offer(self) -> None:
        """Write the offered tools, which come first."""
        if self.tools:
            lines = "".join("\n" + tool.line() for tool in self.tools)
            self.pieces.append((f"<|im_start|>system\nTools:{lines}<|im_end|>\n", PROMPT))

    def system(self, text: str) -> None:
        """Write a message from the system."""
        self.pieces.append((f"<|im_start|>system\n{text}<|im_end|>\n", PROMPT))

    def user(self, text: str) -> None:
        """Write a message from the user and open the answer."""
        self.pieces.append((f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", PROMPT))

    def tool_result(self, text: str) -> None:
        """Write what a tool returned and open the answer."""
        body = f"\n<tool_response>\n{text}\n</tool_response>"
        self.pieces.append((f"<|im_start|>user{body}<|im_end|>\n<|im_start|>assistant\n", PROMPT))

    def answer(self, text: str) -> None:
        """Write the model's answer."""
        self.pieces.append((f"{text}<|im_end|>", ANSWER))
        self.pieces.append(("\n", 0.0))

    def call(self, tool: Tool, value: str | None, integer: int | None) -> None:
        """Write a tool call with at most one string and one integer as arguments."""
        head = f'<tool_call>\n{{"name": "{tool.name}", "arguments": {{'
        if value is None:
            self.pieces.append((head, ANSWER))
            tail = "}}"
        else:
            self.pieces.append((f'{head}"{tool.parameters[0]}": "', ANSWER))
            self.pieces.append((value, VALUE))
            tail = '"}}' if integer is None else f'", "{tool.integer}": {integer}}}}}'
        self.pieces.append((f"{tail}\n</tool_call><|im_end|>", ANSWER))
        self.pieces.append(("\n", 0.0))
