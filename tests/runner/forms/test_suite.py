"""The JSON Schema Test Suite, draft 2020-12: no value is written that violates a schema, whatever the keyword. A schema that
answers cannot be held to is refused.

``UPDATE_GOLDEN=1`` writes the table of ``docs/forms.md`` anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from llguidance import LLMatcher, LLParserLimits

from reconciler.runner.forms.lark import Grammar
from reconciler.runner.forms.matching import LIMITS
from reconciler.runner.forms.schemas import Inexpressible, parsed
from tests.runner.markup.collection import schema_suite

from .walks import Vocabulary

pytestmark = pytest.mark.second_tier

PAGE = Path(__file__).parents[3] / "docs" / "forms.md"
BEGIN, END = "<!-- every keyword -->\n", "<!-- end of every keyword -->\n"
HEADER = "| tests of | schemas enforced | refused | values that satisfy them, of which are not written |\n|---|---|---|---|\n"


@dataclass
class Row:
    """What became of the tests of a keyword."""

    enforced: int = 0
    refused: int = 0
    valid: int = 0
    unwritten: int = 0
    wrong: tuple[str, ...] = ()


class Suite:
    def __init__(self) -> None:
        self._vocabulary = Vocabulary(())
        self._tokens = {content: token for token, content in enumerate(self._vocabulary.bytes)}

    def row(self, path: Path) -> Row:
        row = Row()
        for group in json.loads(path.read_text(encoding="utf-8")):
            matcher = self._matcher(group["schema"])
            if matcher is None:
                row.refused += 1
                continue
            row.enforced += 1
            for test in group["tests"]:
                taken = self._takes(matcher, test["data"])
                row.valid += test["valid"]
                row.unwritten += test["valid"] and not taken
                if taken and not test["valid"]:
                    row.wrong += (f"{group['schema']} takes {test['data']!r}: {test['description']}",)
        return row

    def _matcher(self, schema: Any) -> Any:
        try:
            ready = parsed(json.dumps(schema), "schema")
        except Inexpressible:
            return None
        grammar = Grammar({})
        written = grammar.text(grammar.json(ready))
        made = LLMatcher(self._vocabulary.matching, written, log_level=0, limits=LLParserLimits(**LIMITS))
        return None if made.is_error() else made

    def _takes(self, matcher: Any, value: Any) -> bool:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        tokens = [self._tokens[bytes([byte])] for byte in text.encode()]
        begun = matcher.deep_copy()
        return begun.try_consume_tokens(tokens) == len(tokens) and bool(begun.is_accepting())


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    suite = Suite()
    return {name: suite.row(path) for name, path in schema_suite().items()}


def test_nothing_is_accepted_and_ignored(rows: dict[str, Row]) -> None:
    assert [found for row in rows.values() for found in row.wrong] == []
    assert sum(row.enforced for row in rows.values()) > 150


def test_the_page_has_a_row_for_each_keyword(rows: dict[str, Row]) -> None:
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    table, end, after = rest.partition(END)
    rendered = HEADER + "".join(lines(rows))
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + begin + rendered + end + after)
    else:
        assert table == rendered


def lines(rows: dict[str, Row]) -> Iterator[str]:
    for name, row in rows.items():
        written = f"{row.valid}, {row.unwritten}" if row.enforced else ""
        yield f"| `{name}` | {row.enforced or 'none'} | {row.refused or 'none'} | {written} |\n"
