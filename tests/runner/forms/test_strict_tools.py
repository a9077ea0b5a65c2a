"""Of strict tools those are held to their schemas that can be; the others are free, and the answer says how many."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.utils import load

from reconciler.runner.forms.answers import Asked
from reconciler.runner.forms.matching import Forms
from reconciler.runner.forms.schemas import TOOLS_BYTES_MAX, Inexpressible, unmatched
from reconciler.runner.model.adapter import Loaded, Tokenizer
from reconciler.wire.form import Form

from .walks import family, function

ZOD_EMAIL = (
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
)
"""What zod 4 writes for ``z.email()``, with ``format: email`` beside it."""
FINE = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
PATH = "tools[{}].function.parameters"


def of(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"p": schema}, "required": ["p"]}


UNHOLDABLE: dict[str, tuple[Any, str]] = {
    "look-ahead": (of(type="string", pattern="^(?!no)"), ".properties.p.pattern"),
    "look-behind": (of(type="string", pattern="a(?<=b)c"), ".properties.p.pattern"),
    "a reference": (of(type="string", pattern=r"^(a|b)\1$"), ".properties.p.pattern"),
    "no expression": (of(type="string", pattern="(a"), ""),
    "an unknown format": (of(type="string", format="iri"), ".properties.p.format"),
    "not": (of(**{"not": {"type": "null"}}), ".properties.p.not"),
    "contains": (of(type="array", contains={"type": "integer"}), ".properties.p.contains"),
    "a reference to nothing": (of(**{"$ref": "#/$defs/none"}), ""),
    "no object": ({"type": "array"}, ".type"),
    "nothing": (False, ""),
    "too long": ({**FINE, "description": "x" * TOOLS_BYTES_MAX}, ""),
}


@pytest.fixture(scope="module")
def loaded(endless: Path) -> Loaded:
    model, tokenizer = load(str(endless))[:2]
    return Loaded(model, Tokenizer(tokenizer), 304)


@pytest.fixture(params=["hermes", "qwen3-coder", "mistral"])
def forms(loaded: Loaded, request: pytest.FixtureRequest) -> Forms:
    found = Forms(loaded)
    found._family = family(request.param)
    return found


def asked(schemas: Sequence[Any], strict: bool = True, **form: Any) -> Asked:
    tools = tuple(function(f"tool{index}", schema) for index, schema in enumerate(schemas))
    names = tuple(f"tool{index}" for index in range(len(schemas))) if strict else ()
    return Asked(Form(strict=names, **form), tools, True, "")


@pytest.mark.parametrize("harm", UNHOLDABLE)
@pytest.mark.parametrize("place", [0, 7, 19])
def test_one_tool_of_twenty_takes_no_other_with_it(forms: Forms, harm: str, place: int) -> None:
    schemas: list[Any] = [FINE] * 20
    schemas[place] = UNHOLDABLE[harm][0]
    assert forms.begin(asked(schemas), ()).replaced == {"strict-tools": 1}
    assert forms.begin(asked([FINE] * 20), ()).replaced == {}


@pytest.mark.parametrize("harm", UNHOLDABLE)
def test_where_a_call_is_required_it_is_refused_by_its_path(forms: Forms, harm: str) -> None:
    schema, within = UNHOLDABLE[harm]
    with pytest.raises(Inexpressible) as refused:
        forms.begin(asked([FINE, schema], calls_required=True), ())
    assert refused.value.path.startswith(PATH.format(1) + within)
    with pytest.raises(Inexpressible) as again:
        forms.begin(asked([FINE, schema], calls_required=True), ())
    assert (again.value.path, again.value.why) == (refused.value.path, refused.value.why)


def test_all_of_them_may_be_free(forms: Forms) -> None:
    schemas = [schema for name, (schema, _) in UNHOLDABLE.items() if name != "too long"]
    assert forms.begin(asked(schemas), ()).replaced == {"strict-tools": len(schemas)}


def test_the_content_of_the_same_request_is_still_held_or_refused(forms: Forms) -> None:
    bad = UNHOLDABLE["look-ahead"][0]
    begun = forms.begin(asked([bad], schema=json.dumps(FINE)), ())
    assert begun.replaced == {"strict-tools": 1}
    with pytest.raises(Inexpressible) as refused:
        forms.begin(asked([FINE], schema=json.dumps(bad)), ())
    assert refused.value.path == "response_format.properties.p.pattern"
    assert refused.value.why == "answers cannot be held to a pattern with (?!, which is a look-ahead"


def test_a_pattern_beside_a_format_that_is_enforced_is_dropped_and_told(forms: Forms) -> None:
    email = of(type="string", format="email", pattern=ZOD_EMAIL)
    assert forms.begin(asked([], schema=json.dumps(email)), ()).replaced == {"patterns": 1}
    assert forms.begin(asked([FINE, FINE], schema=json.dumps(FINE)), ()).replaced == {}
    plain = of(type="string", format="date", pattern="^2")
    assert forms.begin(asked([], schema=json.dumps(plain)), ()).replaced == {}


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        (r"[(?=]", ""),
        (r"\(?=a", ""),
        (r"\\(?=a)", "(?="),
        (r"[\]](?!a)", "(?!"),
        (r"\\1", ""),
        (r"\1", r"\1"),
        (r"(?<name>a)\k<name>", r"\k<"),
        (r"(?<name>a)", ""),
        (r"(?:a)(?<!b)", "(?<!"),
    ],
)
def test_a_construct_is_found_where_it_is_one(pattern: str, construct: str) -> None:
    assert unmatched({"pattern": pattern}) == construct
    assert unmatched({"pattern": pattern, "type": "integer"}) == ""
