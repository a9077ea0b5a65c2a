"""Tokens that end an answer, beside those that ``mlx_lm`` finds (``generation_config.json``, else ``config.json``, and the
tokenizer's own, ``mlx_lm/utils.py`` and ``tokenizer_utils.py`` of 0.32.2).

A fine-tuned or converted model often names the end token of its base model, while its template ends turns with another
one. Without that one, the answer goes on with a turn of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ANSWER, THOUGHT = "Xq7v9.", "Wk3z8."
"""Texts that no template contains."""
ASKED: Mapping[str, Any] = {"role": "user", "content": "Hi."}
PLAIN: Mapping[str, Any] = {"role": "assistant", "content": ANSWER}
THOUGHTFUL: Mapping[str, Any] = {
    **PLAIN,
    **dict.fromkeys(("reasoning_content", "reasoning", "thinking"), THOUGHT),
}

Render = Callable[[Sequence[Mapping[str, Any]]], str]
"""Turns a conversation into text, without the beginning of another turn. Empty if the template does not take it."""


def configured_ends(config: Mapping[str, Any]) -> frozenset[int]:
    """Return the end tokens in the content of a ``config.json``, also of a text model within another one."""
    named: list[Any] = []
    for part in (config, config.get("text_config")):
        ends = part.get("eos_token_id") if isinstance(part, Mapping) else None
        named += ends if isinstance(ends, list) else [ends]
    return frozenset(token for token in named if type(token) is int and token >= 0)


def turn_end(render: Render, special: Mapping[int, str], markers: Iterable[str]) -> int | None:
    """Return the special token that comes right after an answer; None if there is none.

    A token that is a part of ``markers`` may also end a part of a turn, as in Harmony, so it does not count. Neither does
    one that comes between a thought and its answer.
    """
    after = render((ASKED, PLAIN)).rpartition(ANSWER)[2].lstrip()
    found = [(text, token) for token, text in special.items() if text and after.startswith(text)]
    if not found:
        return None
    text, token = max(found, key=lambda one: len(one[0]))
    if any(text in marker for marker in markers):
        return None
    _, thought, answered = render((ASKED, THOUGHTFUL)).rpartition(THOUGHT)
    return None if thought and text in answered.partition(ANSWER)[0] else token
