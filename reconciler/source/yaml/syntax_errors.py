"""Writes messages for syntax errors, and shows values in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

CLIP_CHARACTERS = 40
"""Most characters of a value in a message, because a manifest may contain a secret in the wrong place."""


def clip(text: str) -> str:
    """Return at most ``CLIP_CHARACTERS`` of ``text``, on one line and without control characters."""
    shown = text[: CLIP_CHARACTERS + 1]
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    return plain if len(text) <= CLIP_CHARACTERS else plain[:CLIP_CHARACTERS] + "…"


_INDENTATION = "the indentation does not fit the lines above"
_NO_COLON = 'expected "key: value"; a ":" or the space after it is missing'
_COLON = 'a ": " that is not allowed here; put text that contains one in quotes, or check the indentation'
_LIST_PLACE = 'a list cannot begin here; put its "- " on the next line'
_NOTHING_HERE = "expected a value; a bracket is missing or superfluous"
_ESCAPE = r'an unknown escape after "\"; write "\\" for a backslash, or use single quotes'

_AT_PROBLEM = (
    ("found a tab character", "a tab; YAML indents with spaces only"),
    ("mapping values are not allowed", _COLON),
    ("block sequence entries are not allowed", _LIST_PLACE),
    ("sequence entries are not allowed", _LIST_PLACE),
    ("did not find expected key", _INDENTATION),
    ("did not find expected '-' indicator", _INDENTATION),
    ("expected <block end>", _INDENTATION),
    ("did not find expected <document start>", 'expected a document; a new one begins with "---"'),
    ("expected '<document start>'", 'expected a document; a new one begins with "---"'),
    ("did not find expected node content", _NOTHING_HERE),
    ("expected the node content", _NOTHING_HERE),
    ("could not find expected directive name", 'a line that begins with "%"; put text in quotes'),
    ("found unknown escape character", _ESCAPE),
    ("found unexpected document indicator", 'a quoted text is not closed before "---" or "..."'),
)
_AT_CONTEXT = (
    ("could not find expected ':'", _NO_COLON),
    ("did not find expected ',' or ']'", 'a "[" without its "]", or a missing ","'),
    ("expected ',' or ']'", 'a "[" without its "]", or a missing ","'),
    ("did not find expected ',' or '}'", 'a "{" without its "}", or a missing ","'),
    ("expected ',' or '}'", 'a "{" without its "}", or a missing ","'),
    ("found unexpected end of stream", "a quoted text is not closed"),
)
"""Messages of libyaml and PyYAML, and ours. Problems of the second table are reported at the element's beginning."""


def syntax_problem(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """Return line and column, from 0, and a plain message for an error of the YAML parser."""
    problem = error.problem or error.context or "not YAML"
    at, context = error.problem_mark, error.context_mark
    if "cannot start any token" in problem and at is not None:
        return at.line, at.column, _bad_start(_character(text, at))
    for beginning, words in _AT_PROBLEM:
        if problem.startswith(beginning) and at is not None:
            return at.line, at.column, words
    for beginning, words in _AT_CONTEXT:
        if problem.startswith(beginning) and context is not None:
            return context.line, context.column, words
    mark = at or context
    return (mark.line, mark.column, f"not YAML: {problem}") if mark else (0, 0, f"not YAML: {problem}")


def _character(text: str, mark: Any) -> str:
    """Return the character at a mark, whose lines follow YAML's line breaks."""
    return text[mark.index : mark.index + 1]


def _bad_start(character: str) -> str:
    if character == "\t":
        return "a tab; YAML indents with spaces only"
    return f'text cannot begin with "{clip(character)}"; put it in quotes'
