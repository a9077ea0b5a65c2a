"""What a request gets where its client does not say: of its deployment first, of the model then."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects.openai.completions import parse_completion
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.routing.defaults import settled, with_defaults
from reconciler.wire.generation import Accepted, Generate, Route
from reconciler.wire.sampling import OPEN, Repetition, Sampling, SamplingDefaults
from tests.gateway.conftest import HELLO

OWN = SamplingDefaults(temperature=0.6, top_k=20, repetition_penalty=1.1)
ROUTE = Route("llama", (), 4096, 0, sampling=OWN)


def chat(**fields: Any) -> Generate:
    return parse_chat(orjson.dumps({"messages": HELLO, **fields}), 7).choices[0]


def test_a_request_that_says_nothing_leaves_everything_open() -> None:
    assert set(chat().unset) == set(OPEN)
    assert set(parse_completion(orjson.dumps({"prompt": "Once"}), 7).choices[0].unset) == set(OPEN)


@pytest.mark.parametrize("name", OPEN)
def test_what_the_client_says_is_not_open_and_null_says_nothing(name: str) -> None:
    assert name not in chat(**{name: 1}).unset
    assert name in chat(**{name: None}).unset


def test_the_deployment_decides_what_the_client_does_not() -> None:
    found = with_defaults(chat(temperature=0.9), ROUTE)
    assert found.sampling == Sampling(temperature=0.9, top_k=20, repetition_penalty=1.1, seed=7)
    assert set(found.unset) == {"top_p", "min_p"}


def test_a_request_decides_when_its_answer_ends_by_repetition_before_the_deployment_does() -> None:
    own = Repetition(pattern_max=64, pattern_min=8, count=4)
    route = dataclasses.replace(ROUTE, repetition=own)
    assert with_defaults(chat(), ROUTE).repetition is None
    assert with_defaults(chat(), route).repetition == own
    asked = chat(repetition_detection={"max_pattern_size": 9, "min_count": 2})
    assert with_defaults(asked, route).repetition == Repetition(9, 1, 2)
    off = with_defaults(chat(repetition_detection={"max_pattern_size": 0}), route).repetition
    assert off is not None
    assert off.pattern_max == 0


def test_a_request_for_the_likeliest_tokens_alone_stays_one() -> None:
    """OpenAI's 0 for ``top_p`` is read as a temperature of 0."""
    assert with_defaults(chat(top_p=0), ROUTE).sampling.temperature == 0.0
    assert with_defaults(chat(temperature=0), ROUTE).sampling.temperature == 0.0


def test_what_a_group_has_found_stays_for_the_next_one() -> None:
    asked = with_defaults(chat(), ROUTE)
    own = dataclasses.replace(asked.sampling, top_p=0.8)
    found = settled(asked, Accepted("a", (1,), sampling=own))
    assert (found.sampling, found.unset) == (own, ())
    other = dataclasses.replace(ROUTE, sampling=SamplingDefaults(temperature=0.1, min_p=0.5))
    assert with_defaults(found, other).sampling == own


def test_a_group_that_does_not_say_what_it_took_changes_nothing() -> None:
    asked = with_defaults(chat(), ROUTE)
    assert settled(asked, Accepted("a", (1,))) == asked


@pytest.mark.parametrize("thinks", [True, False])
def test_the_deployment_decides_whether_the_model_reasons(thinks: bool) -> None:
    route = dataclasses.replace(ROUTE, thinking=thinks)
    found = with_defaults(chat(chat_template_kwargs={"style": "brief"}), route)
    assert found.template == {"style": "brief", "enable_thinking": thinks, "thinking": thinks}
    assert with_defaults(found, dataclasses.replace(ROUTE, thinking=not thinks)).template == found.template


def test_without_a_word_of_the_deployment_the_template_decides() -> None:
    assert with_defaults(chat(), ROUTE).template == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": True},
        {"thinking": {"type": "enabled"}},
        {"reasoning_effort": "low"},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": True}},
        {"chat_template_kwargs": {"thinking": True}},
    ],
)
def test_a_client_that_says_how_much_to_reason_is_obeyed(fields: dict[str, Any]) -> None:
    asked = chat(**fields)
    assert with_defaults(asked, dataclasses.replace(ROUTE, thinking=False)).template == asked.template
