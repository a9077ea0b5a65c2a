"""No history kills a session: whatever OpenAI's and Anthropic's types allow is rendered, and what is rendered stays.

``RECONCILER_FUZZ_EXAMPLES`` says how many histories are drawn over the templates of the collection.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reconciler.gateway.dialects.anthropic.request import parse_request
from reconciler.gateway.dialects.openai.request import parse_chat
from reconciler.gateway.dialects.responses.request import parse_response
from reconciler.gateway.errors import ApiError
from reconciler.runner.decode.answer import Answer
from reconciler.runner.markup.answer import Family
from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests import conversation
from reconciler.runner.requests.conversation import render
from reconciler.runner.requests.prompt import tools_problem
from reconciler.runner.requests.shaping import REPLACED, shape
from reconciler.runner.requests.traits import REASONING_KEYS, STRICTEST, Traits
from reconciler.wire.generation import Generate
from tests.examples import examples
from tests.runner.markup.collection import templates
from tests.runner.markup.test_templates import TOOL, UNNAMED, USER, shared, tokenizer_of
from tests.runner.ranks import Reply, question

from . import histories

EXAMPLES = int(os.environ.get("RECONCILER_FUZZ_EXAMPLES", "400"))
PARTS = 4
"""In how many tests they are drawn: each ends in time, also where other processes compute."""
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
BODIES: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "chat": histories.chats(),
    "responses": histories.responses(),
    "messages": histories.messages(),
}
PARSERS: Mapping[str, Callable[[bytes], Generate]] = {
    "chat": lambda body: parse_chat(body, 1).choices[0],
    "responses": lambda body: parse_response(body, 1).generate,
    "messages": lambda body: parse_request(body, 1).generate,
}
NOT_TEXT = "is not supported: this endpoint takes text only"

requests = st.sampled_from(list(BODIES)).flatmap(lambda name: st.tuples(st.just(name), BODIES[name]))


def parsed(dialect: str, body: Mapping[str, Any]) -> Generate | None:
    """The request; None where the newest message of the user has what is no text, which is refused by name."""
    try:
        return PARSERS[dialect](json.dumps(body).encode())
    except ApiError as error:
        if NOT_TEXT in str(error):
            return None
        raise


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(requests)
def test_the_histories_are_such_as_openai_and_anthropic_publish_them(drawn: tuple[str, Any]) -> None:
    dialect, body = drawn
    histories.check(dialect, body)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(requests)
def test_no_history_is_refused_but_for_what_is_no_text_in_the_newest_message(drawn: tuple[str, Any]) -> None:
    dialect, body = drawn
    generate = parsed(dialect, body)
    if generate is None:
        return
    for message in generate.messages:
        assert isinstance(message["content"], str)
        assert message["role"] in ("system", "user", "assistant", "tool")


@settings(max_examples=examples(200), deadline=None, suppress_health_check=SLOW)
@given(requests.flatmap(histories.loosened))
def test_no_history_of_a_client_of_other_servers_is_refused_either(drawn: tuple[str, Any]) -> None:
    generate = parsed(*drawn)
    if generate is None:
        return
    for taken in (Traits(), STRICTEST):
        assert all(isinstance(message["content"], str) for message in shaped(generate.messages, taken))


traits = st.builds(
    Traits,
    **{
        field.name: st.booleans() if isinstance(field.default, bool) else st.just(field.default)
        for field in dataclasses.fields(Traits)
        if field.name != "reasoning"
    },
    reasoning=st.sampled_from(REASONING_KEYS),
)
MORE = (
    [{"role": "assistant", "content": "More."}, {"role": "user", "content": "Go on."}],
    [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": f"new-{n}", "type": "function", "function": {"name": "look", "arguments": "{"}}
                for n in range(2)
            ],
        },
        {"role": "tool", "tool_call_id": "new-0", "content": "a"},
        {"role": "tool", "tool_call_id": "new-1", "content": "b"},
    ],
)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(requests, traits, st.sampled_from(MORE))
def test_what_is_sent_of_a_history_stays_when_it_goes_on(
    drawn: tuple[str, Any], taken: Traits, more: list[dict[str, Any]]
) -> None:
    generate = parsed(*drawn)
    if generate is None or not said_last(generate, "user", "tool"):
        return
    before = shaped(generate.messages, taken)
    after = shaped((*generate.messages, *more), taken)
    assert after[: len(before)] == before


def said_last(generate: Generate, *roles: str) -> bool:
    return bool(generate.messages) and generate.messages[-1]["role"] in roles


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(requests, traits)
def test_nothing_that_the_user_or_a_tool_has_said_is_lost(drawn: tuple[str, Any], taken: Traits) -> None:
    generate = parsed(*drawn)
    if generate is None:
        return
    sent = "\n".join(message["content"] for message in shaped(generate.messages, taken))
    for message in generate.messages:
        if message["role"] in ("user", "tool", "system"):
            assert message["content"] in sent


@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW)
@given(requests)
def test_the_strictest_template_gets_messages_of_user_and_model_by_turns(drawn: tuple[str, Any]) -> None:
    generate = parsed(*drawn)
    if generate is None:
        return
    sent = shaped(generate.messages, STRICTEST)
    assert [message["role"] for message in sent] == [("user", "assistant")[n % 2] for n in range(len(sent))]
    assert all(message["content"] for message in sent if message["role"] == "assistant")


def shaped(messages: Any, taken: Traits) -> list[dict[str, Any]]:
    given = [conversation._message(message) for message in messages]
    found = shape(given, (), taken, Family("plain"), "")
    assert found.replaced.keys() <= REPLACED.keys()
    return found.messages


# --- the collection -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Tokenizer]:
    """A tokenizer with each template that shows tools, and whose calls are read."""
    folder, found = tmp_path_factory.mktemp("templates"), {}
    for name, template in templates().items():
        (folder / name).mkdir()
        tokenizer = tokenizer_of(template, folder / name, UNNAMED.get(name, ()))
        if not tools_problem(tokenizer):
            found[name] = tokenizer
    assert len(found) >= 58
    return found


@pytest.mark.second_tier
@pytest.mark.parametrize("part", range(PARTS))
def test_every_template_renders_every_drawn_history(collection: Mapping[str, Tokenizer], part: int) -> None:
    counts: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES // PARTS, deadline=None, suppress_health_check=SLOW)
    @given(requests, st.sampled_from(sorted(collection)[part::PARTS]))
    def render_one(drawn: tuple[str, Any], name: str) -> None:
        generate = parsed(*drawn)
        counts["refused by name" if generate is None else "rendered"] += 1
        if generate is not None:
            rendered = render(generate.messages, generate.tools, collection[name])
            counts.update(f"with {kind}" for kind in rendered.replaced)
            assert rendered.replaced.keys() <= REPLACED.keys()

    render_one()
    print(dict(counts))


# LFM2.5 escapes no single quote.
values = st.fixed_dictionaries(
    {"city": st.text('aZ\u00e9"\\ {}<b>,:\n', max_size=12).map(lambda text: f"a{text}z")},
    optional={
        "days": st.integers(-1000, 1000),
        "opts": st.fixed_dictionaries({"a": st.lists(st.integers(0, 9), min_size=1, max_size=3)}),
    },
)


@pytest.mark.second_tier
def test_a_call_of_the_history_is_read_back_as_it_was(collection: Mapping[str, Tokenizer]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW)
    @given(values, st.sampled_from(sorted(collection)))
    def read_one(arguments: dict[str, Any], name: str) -> None:
        # LFM2.5 escapes nothing, so that an escaped quote, or a continued line, and a backslash before one look alike.
        assume(not (name.startswith("LFM2.5") and re.search(r'\\["\\\n]', arguments["city"])))
        assert read_back(collection[name], arguments) == [("get_weather", arguments)]

    read_one()


def read_back(tokenizer: Tokenizer, arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    """What is read of a call that the history has."""
    function = {"name": "get_weather", "arguments": json.dumps(arguments)}
    called = {"id": "call_1", "type": "function", "function": function}
    call = {"role": "assistant", "content": "", "tool_calls": [called]}
    written = render([USER, call], [TOOL], tokenizer, generation_prompt=False).text
    prompt = shared(render([USER], [TOOL], tokenizer).text, written)
    answer = Answer(question("a", "", tools=(TOOL,)), tokenizer.rendered(prompt), tokenizer)
    events: list[Any] = []
    for token in tokenizer.rendered(written[len(prompt) :]):
        answer.take(token)
        if answer.stopped:
            break
        events += answer.events()
    reply = Reply([*events, *answer.finish("stop")])
    return [(called, json.loads(given)) for called, given in reply.calls]
