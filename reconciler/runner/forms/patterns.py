"""Which texts match regular expressions. A client writes both, so that no engine that backtracks may see them.

llguidance 1.9.1 matches with derivatives (its crate ``derivre``): one pass over the text, and what an expression may cost
is bounded by its fuel.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from .lark import Grammar, regex

AT_ONCE = 4096
"""Bytes that are matched in one go, a few milliseconds. Other threads wait meanwhile, for llguidance keeps the interpreter."""


class Unmatchable(ValueError):
    """Expressions that cannot be compiled, or that cost more than any may."""


def matching(expressions: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return those of some texts that match all expressions as a whole. Raises ``Unmatchable``."""
    if not expressions or not texts:
        return list(texts)
    grammar = Grammar({})
    whole = grammar.terminal(" & ".join(map(regex, expressions)))
    made = LLMatcher(_bytes(), grammar.text(whole), log_level=0, limits=LLParserLimits(verbose_errors=False))
    return [text for text in texts if _matches(made, text)]


def _matches(made: Any, text: str) -> bool:
    state = made.deep_copy()
    said = _bytes().tokenize_bytes(text.encode("utf-8", "surrogatepass"))
    for at in range(0, len(said), AT_ONCE):
        part = said[at : at + AT_ONCE]
        if state.try_consume_tokens(part) < len(part):
            break
    else:
        if state.is_accepting():
            return True
    if state.is_error():
        raise Unmatchable(_reason(state.get_error()))
    return False


def _reason(error: str) -> str:
    """Return what llguidance says, without the place in a grammar that nobody has seen."""
    lines = error.strip().splitlines() or ["it cannot be compiled"]
    return next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])[
        :200
    ]


@functools.cache
def _bytes() -> Any:
    """Return a vocabulary that has a token for each byte."""
    return LLTokenizer("byte")
