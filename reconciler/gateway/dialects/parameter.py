"""The treatment of parameters that clients may send. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

CHAT, TEXT, RESPONSES, MESSAGES = "chat", "completions", "responses", "messages"
PATHS = (CHAT, TEXT, RESPONSES, MESSAGES)
"""In the order of the table."""
ALL, NONE = frozenset(PATHS), frozenset[str]()
BOTH, TALKS = frozenset([CHAT, TEXT]), frozenset([CHAT, RESPONSES, MESSAGES])
ONLY_CHAT, ONLY_TEXT = frozenset([CHAT]), frozenset([TEXT])
ONLY_RESPONSES, ONLY_MESSAGES = frozenset([RESPONSES]), frozenset([MESSAGES])
OF_OPENAI = ALL - ONLY_MESSAGES
"""The paths of OpenAI."""
CHAT_OF_OPENAI, WITH_MESSAGES = frozenset([CHAT, RESPONSES]), frozenset([CHAT, MESSAGES])
OPENAI, VLLM, LLAMA, MLX, ANTHROPIC = "OpenAI", "vLLM", "llama.cpp", "mlx_lm", "Anthropic"
SGLANG, OLLAMA, LM_STUDIO, DASHSCOPE = "SGLang", "Ollama", "LM Studio", "DashScope"
OWN = "reconciler"

Idle = tuple[Any, ...]
"""Values without effect, in addition to null."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Parameters with the same treatment."""

    names: Mapping[str, Idle]
    """Each with the values that are accepted on paths without it."""
    known_to: tuple[str, ...]
    note: str
    works: frozenset[str] = NONE
    """The paths on which it is parsed."""
    harmless: bool = False
    """True if no value changes an answer, so that all are accepted."""
    on: frozenset[str] = ALL
    """The paths that this row is about."""
    code: str = "unsupported_parameter"
    """The code of the error that refuses it: clients go on without some parameters, if the error has the code for that."""

    def accepts(self, name: str, value: Any) -> bool:
        """Return whether a value is accepted although it is not parsed."""
        return self.harmless or value is None or any(_same(value, idle) for idle in self.names[name])


def each(names: str, *idle: Any) -> dict[str, Idle]:
    """Return names that have the same values without effect."""
    return dict.fromkeys(names.split(), idle)


def _same(value: Any, idle: Any) -> bool:
    """Return whether two values are equal; ``true`` is not 1."""
    return isinstance(value, bool) == isinstance(idle, bool) and bool(value == idle)
