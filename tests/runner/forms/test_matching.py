"""Answers in rank 0's loop that are held to a form: alone, beside others, continued, and where nothing can hold them any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from mlx_lm.utils import load

from reconciler.runner.decode.lanes import HEADROOM
from reconciler.runner.forms.answers import Asked
from reconciler.runner.forms.matching import Forms, Matcher, Unfit, compiling_thread
from reconciler.runner.forms.schemas import COUNT_MAX, Inexpressible
from reconciler.runner.model.adapter import Loaded, Tokenizer
from reconciler.runner.model.caches import footprint
from reconciler.wire.form import Form
from reconciler.wire.generation import Failed
from reconciler.wire.launch import CACHE_STEP
from reconciler.wire.sampling import Bias, Sampling
from tests.runner.decode.loop import Loop

SCHEMA = {
    "type": "object",
    "properties": {
        "t\u00e9xt": {"type": "string", "minLength": 3, "maxLength": 12},
        "n": {"enum": ['\\"\u00e9', 1]},
    },
    "required": ["t\u00e9xt", "n"],
}
ASKED = Asked(Form(schema=json.dumps(SCHEMA)), (), True, "", literal=True)
PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def loaded(endless: Path) -> Loaded:
    model, tokenizer = load(str(endless))[:2]
    return Loaded(model, Tokenizer(tokenizer), 304)


@pytest.fixture(scope="module")
def forms(loaded: Loaded) -> Forms:
    return Forms(loaded)


def drawn(seed: int) -> Sampling:
    return Sampling(temperature=1.0, seed=seed)


def put(
    loop: Loop, forms: Forms, name: str, resume: Sequence[int] = (), asked: Asked = ASKED, **fields: Any
) -> None:
    given = {"prompt": PROMPT, "tokens_max": 200, **fields}
    loop.put(name, resume=resume, matcher=forms.begin(asked, resume), **given)


def answered(loaded: Loaded, forms: Forms, seed: int, resume: Sequence[int] = ()) -> Any:
    loop = Loop(loaded)
    put(loop, forms, "a", resume, sampling=drawn(seed))
    loop.run()
    return loop.events["a"]


def tokens(events: Sequence[Any]) -> list[int]:
    return [token for event in events for token in getattr(event, "tokens", ())]


def text(events: Sequence[Any]) -> str:
    return "".join(getattr(event, "text", "") for event in events)


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_satisfies_its_schema_and_ends_with_it(loaded: Loaded, forms: Forms, seed: int) -> None:
    events = answered(loaded, forms, seed)
    assert events[-1].reason == "stop"
    jsonschema.validate(json.loads(text(events)), SCHEMA)


@pytest.mark.second_tier
def test_an_answer_goes_on_from_any_of_its_tokens(loaded: Loaded, forms: Forms) -> None:
    """Among them: within an escape, and within a character of two bytes."""
    whole = answered(loaded, forms, 1)
    said = tokens(whole)
    assert "\\" in text(whole) or "\u00e9" in text(whole)
    for cut in range(1, len(said)):
        rest = answered(loaded, forms, 1, said[:cut])
        assert said[:cut] + tokens(rest) == said, cut
        assert text(whole).endswith(text(rest))


def test_others_in_the_batch_say_what_they_say_alone(loaded: Loaded, forms: Forms) -> None:
    alone = Loop(loaded)
    alone.put("free", prompt=PROMPT, sampling=drawn(2))
    alone.run()
    together = Loop(loaded)
    together.put("free", prompt=PROMPT, sampling=drawn(2))
    for seed in range(3):
        put(together, forms, f"held {seed}", sampling=drawn(seed))
    together.run()
    assert tokens(together.events["free"]) == tokens(alone.events["free"])
    for seed in range(3):
        assert tokens(together.events[f"held {seed}"]) == tokens(answered(loaded, forms, seed))


def test_a_sequence_that_gives_way_goes_on_where_it_was(loaded: Loaded, forms: Forms) -> None:
    endless = Asked(Form(regex="([a-f]{3}[0-9]){100,}"), (), True, "", literal=True)
    room = footprint(loaded.model, None).bytes(3 * (100 + CACHE_STEP) + HEADROOM + 30)
    said: dict[int, list[list[int]]] = {}
    for bound in (room, None):
        loop = Loop(loaded, batch_max=16, cache_bytes=bound)
        for seed in range(3):
            put(loop, forms, f"{seed}", prompt=[5 + seed] * 100, asked=endless, sampling=drawn(seed))
        loop.run()
        assert any(step.remove for step in loop.steps) == (bound is not None)
        for seed in range(3):
            said.setdefault(seed, []).append(tokens(loop.events[f"{seed}"]))
    assert all(crowded == alone and crowded for crowded, alone in said.values())


def test_no_bias_makes_a_token_come_that_may_not(loaded: Loaded, forms: Forms) -> None:
    loop = Loop(loaded)
    biases = (Bias(0, 100.0), Bias(40, 100.0), *(Bias(token, -100.0) for token in range(60, 200)))
    put(loop, forms, "a", sampling=Sampling(temperature=1.0, seed=3, biases=biases, min_p=0.2, top_k=5))
    loop.run()
    jsonschema.validate(json.loads(text(loop.events["a"])), SCHEMA)


def test_what_exists_of_another_tokenizer_s_answer_is_refused(forms: Forms) -> None:
    with pytest.raises(Unfit, match="not of the form"):
        forms.begin(ASKED, [100, 101])


class Tiring(Matcher):
    """Can say nothing of the answer from its fourth token on."""

    def fill(self, words: Any) -> None:
        self.taken = getattr(self, "taken", 0) + 1
        if self.taken == 4:
            self.failure = "too complex"
        super().fill(words)


def test_a_matcher_that_gives_up_ends_its_answer_and_no_other(loaded: Loaded, forms: Forms) -> None:
    loop = Loop(loaded)
    begun = forms.begin(ASKED, ())
    begun.__class__ = Tiring
    loop.put("tired", prompt=PROMPT, sampling=drawn(1), matcher=begun)
    put(loop, forms, "held", sampling=drawn(1))
    loop.run()
    last = loop.events["tired"][-1]
    assert isinstance(last, Failed)
    assert (last.code, last.parameter) == ("invalid_request", "response_format")
    said = tokens(loop.events["tired"])
    assert 0 < len(said) <= 4
    assert tokens(answered(loaded, forms, 1))[: len(said)] == said
    assert tokens(loop.events["held"]) == tokens(answered(loaded, forms, 1))


@pytest.mark.parametrize(
    ("fails", "over", "left", "failure"),
    [("", False, 0, ""), ("too complex\nmore", False, -1, "too complex"), ("too complex", True, 7, "")],
    ids=["held", "failed", "over"],
)
def test_a_matcher_that_fails_leaves_every_token_possible_in_its_last_step(
    fails: str, over: bool, left: int, failure: str
) -> None:
    """Without any, nothing could be chosen for its row."""
    words = np.full(4, 7, dtype=np.int32)
    inner = SimpleNamespace(
        unsafe_compute_mask_ptr=lambda place, count: words.fill(0),
        is_error=lambda: bool(fails),
        get_error=lambda: fails,
    )
    tested = Matcher(inner, frozenset([2]), "response_format")
    if over:
        tested.advance(2)
    tested.fill(words)
    assert (words.tolist(), tested.failure) == ([left] * 4, failure)
    words.fill(5)
    tested.fill(words)
    assert words.tolist() == [0 if not (fails or over) else 5] * 4, "a failure is not asked again"


def test_a_grammar_is_compiled_once(forms: Forms, monkeypatch: pytest.MonkeyPatch) -> None:
    forms.begin(ASKED, ())
    monkeypatch.setattr(forms, "_made", None)
    forms.begin(ASKED, ())


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (
            {"properties": {"a": {"items": {"pattern": "(?=a)"}}}},
            "response_format.properties.a.items.pattern",
        ),
        ({"properties": {"a": {"items": {"pattern": "(a"}}}}, "response_format.properties.a.items"),
        ({"oneOf": [{"minLength": 1}, {"maxLength": 5}]}, "response_format"),
        ({"$ref": "#/$defs/none"}, "response_format"),
        ({"properties": {"a": {"not": {}}}}, "response_format.properties.a.not"),
        ({"properties": {"a": {"format": "iri"}}}, "response_format.properties.a.format"),
        ({"required": 5}, "response_format"),
        ({"enum": []}, "response_format"),
    ],
)
def test_what_cannot_be_compiled_is_named_by_its_path(forms: Forms, schema: Any, path: str) -> None:
    with pytest.raises(Inexpressible) as refused:
        forms.begin(Asked(Form(schema=json.dumps(schema)), (), True, "", literal=True), ())
    assert refused.value.path == path


@pytest.mark.parametrize("link", [{}, {"type": "array", "items": {}}], ids=["references", "lists"])
def test_a_long_way_of_references_is_compiled(forms: Forms, link: dict[str, Any]) -> None:
    count = (COUNT_MAX - 10) // (2 if link else 1)
    chain: dict[str, Any] = {}
    for at in range(count):
        target = {"$ref": f"#/$defs/d{at + 1}"}
        chain[f"d{at}"] = {**link, "items": target} if link else target
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{count}": {"type": "string"}}}
    asked = Asked(Form(schema=json.dumps(schema)), (), True, "", literal=True)
    with compiling_thread() as thread:
        assert thread.submit(forms.begin, asked, ()).result().failure == ""
