"""Every parameter that clients of OpenAI, Anthropic and other model servers may send, and our own. Pure.

The rows stand in ``parameters.txt``, as in ``docs/endpoint.md``, which has the same table. Those of objects within a
request stand in ``parameters_within.txt``.

The names are from the request models of openai 3.52.0 (``types/chat/completion_create_params.py``,
``types/responses/response_create_params.py``), anthropic 2.13.0 (``types/beta/message_create_params.py``), vLLM
(``entrypoints/openai/{chat_completion,completion}/protocol.py``, with the older ``guided_*``), llama.cpp
(``tools/server/server-task.cpp``), mlx-lm 0.32.2 (``server.py``), SGLang (``srt/entrypoints/openai/protocol.py``),
Ollama (``docs/api.md``), and the references of LM Studio and of DashScope's compatible mode.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from .rows import rows_of

CHAT, TEXT, RESPONSES, MESSAGES = "chat", "completions", "responses", "messages"
PATHS = (CHAT, TEXT, RESPONSES, MESSAGES)
"""In the order of the table."""
_NAME = re.compile(r"`([^`]+)`(?: \((.+?)\))?(?:, |$)")
"""A parameter, and the values that are accepted, as JSON."""
_CODES = {"thread": "thread_unsupported_request"}
"""With it, ``tool_runner`` of Anthropic's SDK 2.13.0 goes on without threads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Parameters with the same treatment."""

    names: Mapping[str, Sequence[Any]]
    """Each with the values without effect, which are accepted on paths without it, in addition to null."""
    known_to: Sequence[str]
    note: str
    works: frozenset[str]
    """The paths on which it is parsed."""
    harmless: bool
    """True if no value changes an answer, so that all are accepted."""
    on: frozenset[str]
    """The paths that this row is about."""
    code: str
    """The code of the error that refuses it: clients go on without some parameters, if the error has the code for that."""

    def accepts(self, name: str, value: Any) -> bool:
        """Return whether a value is accepted although it is not parsed."""
        return self.harmless or value is None or any(_same(value, idle) for idle in self.names[name])


def _same(value: Any, idle: Any) -> bool:
    """Return whether two values are equal; ``true`` is not 1."""
    return isinstance(value, bool) == isinstance(idle, bool) and bool(value == idle)


def _row(listed: str, known_to: str, *cells: str) -> Row:
    """Return a row of the table. A path without a word has another row."""
    *treatments, note = cells
    names = {name: tuple(orjson.loads(f"[{idle}]")) for name, idle in _NAME.findall(listed)}
    by_path = dict(zip(PATHS, treatments, strict=True))
    return Row(
        names,
        known_to.split(", "),
        note,
        works=frozenset(path for path, treatment in by_path.items() if treatment == "works"),
        harmless="accepted" in treatments,
        on=frozenset(path for path, treatment in by_path.items() if treatment),
        code=_CODES.get(next(iter(names)), "unsupported_parameter"),
    )


def _within() -> Mapping[str, Sequence[Row]]:
    found: dict[str, list[Row]] = {}
    for where, listed, known_to, treatment, note in rows_of("parameters_within.txt"):
        found.setdefault(where, []).append(_row(listed, known_to, *[treatment] * len(PATHS), note))
    return found


ROWS = tuple(_row(*cells) for cells in rows_of("parameters.txt"))
INSIDE = _within()
"""The same for objects within a request."""
