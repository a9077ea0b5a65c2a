"""Which texts match a client's regular expressions: right answers, and bounded work whatever the client writes."""

from __future__ import annotations

import random
import re
import resource
import subprocess
import sys

import pytest

from reconciler.runner.forms.patterns import AT_ONCE, Unmatchable, matching
from reconciler.runner.forms.schemas import Inexpressible
from reconciler.runner.markup.families import FAMILIES
from reconciler.wire.form import Form

from . import hostile_schemas
from .hostile_schemas import pattern_of
from .walks import Vocabulary, family, function, grammar

PROCESSOR_SECONDS = 60
MEMORY_BYTES = 2 << 30
HOSTILE = 200


@pytest.mark.parametrize("name", [known.family.name for known in FAMILIES])
def test_texts_to_choose_from_are_matched_without_going_back(name: str) -> None:
    choice = {"enum": ["a" * 44 + "!", "a" * 44], "pattern": "^(a+)+$", "type": "string"}
    tools = (function("f", {"properties": {"x": choice}, "required": ["x"]}),)
    assert grammar(Form(calls_required=True), family(name), Vocabulary(()), tools)


@pytest.mark.parametrize("seed", range(200))
def test_what_matches_is_what_matches_elsewhere(seed: int) -> None:
    drawn = random.Random(seed)
    pattern = pattern_of(drawn, depth=2, nested=False)
    texts = ["".join(drawn.choices("ab1 \u00e9", k=drawn.randrange(6))) for _ in range(30)]
    assert matching([pattern], texts) == [text for text in texts if re.fullmatch(pattern, text)]


def test_all_expressions_have_to_match() -> None:
    assert matching(["[ab]+", "(?s:.{2,3})"], ["a", "ab", "abc", "aba", "abab"]) == ["ab", "aba"]
    assert matching([], ["a"]) == ["a"]


@pytest.mark.parametrize("length", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE])
def test_long_texts_are_matched_to_their_end(length: int) -> None:
    whole = "\u00e9" * length
    assert matching(["\u00e9+"], [whole, whole + "!", "!" + whole]) == [whole]


def test_an_expression_that_would_cost_too_much_is_refused() -> None:
    with pytest.raises(Unmatchable, match="too many"):
        matching(["(a{1,1000}){1,1000}"], ["a" * 1000])


@pytest.mark.parametrize(
    ("schema", "key", "says"),
    [
        ({"enum": ["a" * 1000], "pattern": "^(a{1,1000}){1,1000}$"}, ".pattern", "too many"),
        ({"enum": ["aaa"], "pattern": "(a"}, ".pattern", "unclosed"),
        ({"pattern": r"(a)\1"}, ".pattern", r"\1"),
        ({"pattern": "(?<!b)a"}, ".pattern", "(?<"),
        ({"pattern": 7}, ".pattern", "string"),
        ({"minLength": "2}|.*|.{2"}, ".minLength", "number"),
        ({"maxLength": True}, ".maxLength", "number"),
        ({"enum": ["a"], "minLength": -1}, ".minLength", "number"),
    ],
)
def test_what_is_refused_is_named(schema: dict[str, object], key: str, says: str) -> None:
    tools = (function("f", {"properties": {"x": {"type": "string", **schema}}}),)
    with pytest.raises(Inexpressible) as refused:
        grammar(Form(calls_required=True), family("qwen3-coder"), Vocabulary(()), tools)
    assert refused.value.path == "tools[0].function.parameters.properties.x" + key
    assert says in refused.value.why


def test_definitions_beside_each_argument_have_a_bound() -> None:
    arguments = {f"p{at}": {"type": "integer", "minimum": at} for at in range(1000)}
    tools = (function("f", {"properties": arguments, "$defs": {"d": {"description": "x" * 100_000}}}),)
    with pytest.raises(Inexpressible, match="characters") as refused:
        grammar(Form(calls_required=True), family("qwen3-coder"), Vocabulary(()), tools)
    assert refused.value.path == "tools"


def test_tools_have_a_bound_together() -> None:
    tools = tuple(function(f"f{at}", {"properties": {"x": {"enum": ["y" * 200_000]}}}) for at in range(6))
    assert grammar(Form(calls_required=True), family("llama-3"), Vocabulary(()), tools[:5])
    with pytest.raises(Inexpressible, match="characters together") as refused:
        grammar(Form(calls_required=True), family("llama-3"), Vocabulary(()), tools)
    assert refused.value.path == "tools[5].function.parameters"


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


@pytest.mark.second_tier
@pytest.mark.timeout(600)
def test_the_work_for_any_schema_is_bounded() -> None:
    """In a process of its own, which the kernel ends when it has computed for too long, and gives no more memory than this."""
    run = subprocess.run(
        [sys.executable, "-m", hostile_schemas.__name__, str(HOSTILE)],
        preexec_fn=_bound,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    outcomes = run.stdout.splitlines()
    assert len(outcomes) == HOSTILE
    refused = [each for each in outcomes if each != "held"]
    assert 0 < len(refused) < HOSTILE
    assert all(each.startswith("tools") for each in refused)
