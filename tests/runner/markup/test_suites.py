"""vLLM's and llama.cpp's own texts are read here as those two read them, but for what differs by choice.

``by_choice.json`` says what does, and why; each text is read whole and a character at a time.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from .suites import llama_cpp, vllm
from .suites.cases import AGREES, Case

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600), pytest.mark.needs("c++")]

BY_CHOICE: Sequence[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "suites" / "by_choice.json").read_text(encoding="utf-8")
)


def chosen(name: str, given: Sequence[dict[str, Any]]) -> list[str]:
    """The patterns that say that a text is read differently by choice."""
    return [pattern for choice in given for pattern in choice["texts"] if matches(pattern, name)]


def matches(pattern: str, name: str) -> bool:
    """Whether a name is that of a pattern, in which a star stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


@pytest.mark.parametrize(
    ("suite", "cases", "least"), [("vllm", vllm.cases, 400), ("llama.cpp", llama_cpp.cases, 350)]
)
def test_every_text_is_read_alike_but_for_choices(
    suite: str, cases: Callable[[], list[Case]], least: int, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [choice for choice in BY_CHOICE if choice["suite"] == suite]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    wrong, used = [], set()
    for case in cases():
        verdict, seen = case.verdict()
        patterns = [] if verdict == AGREES else chosen(case.name, given)
        counts[case.family.name]["by choice" if patterns else verdict] += 1
        used |= set(patterns)
        if verdict != AGREES and not patterns:
            wrong.append(f"{verdict} {case.family.name} {case.name}: {case.text!r} is {seen}")
    with capsys.disabled():
        print(f"\n{suite}", *(f"{name} {dict(count)}" for name, count in sorted(counts.items())), sep="\n  ")
    assert sum(map(sum, (count.values() for count in counts.values()))) > least
    assert wrong == []
    assert used == {pattern for choice in given for pattern in choice["texts"]}, (
        "what is listed differs no more"
    )
