"""System messages where a model's template takes them, and where it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import pytest

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.families import Known
from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.conversation import _arguments, render

PLAIN = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
ONE_FIRST = """\
{% for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise('System message must be at the beginning.') }}{% endif -%}
[{{ m.role }}:{{ m.content }}]{% endfor %}"""
NONE = """\
{% for m in messages %}
{%- if m.role == 'system' %}{{ raise('System role not supported') }}{% endif -%}
[{{ m.role }}:{{ m.content }}]{% endfor %}"""
DROPS = """\
{%- if messages[0].role == 'system' %}[system:{{ messages[0].content }}]{% endif -%}
{% for m in messages if m.role != 'system' %}[{{ m.role }}:{{ m.content }}]{% endfor %}"""
LEADING = """\
{%- set state = namespace(begun=false) -%}
{% for m in messages %}
{%- if m.role == 'system' and state.begun %}{{ raise('too late') }}{% endif -%}
{%- if m.role != 'system' %}{% set state.begun = true %}{% endif -%}
[{{ m.role }}:{{ m.content }}]{% endfor %}"""


TURNS = """\
{% for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise('roles must alternate') }}{% endif -%}
[{{ m.role }}:{{ m.content }}]{% endfor %}"""


class Templated:
    """Renders with a template of the test's own, as a tokenizer does."""

    known = Known((), Family("plain"))

    def __init__(self, template: str) -> None:
        environment = jinja2.Environment()
        environment.globals["raise"] = _raise
        self._template = environment.from_string(template)
        self.rendered = 0

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        variables: Mapping[str, Any] | None = None,
        generation_prompt: bool = True,
    ) -> str:
        self.rendered += 1
        return self._template.render(messages=messages, tools=tools, **(variables or {}))


def _raise(text: str) -> None:
    raise jinja2.TemplateError(text)


def conversation(*parts: str) -> list[dict[str, Any]]:
    return [dict(zip(("role", "content"), part.split(":"), strict=True)) for part in parts]


@pytest.mark.parametrize(
    ("template", "messages", "text"),
    [
        (PLAIN, conversation("system:a", "user:b", "system:c"), "[system:a][user:b][system:c]"),
        (PLAIN, conversation("system:a", "system:b", "user:c"), "[system:a][system:b][user:c]"),
        (ONE_FIRST, conversation("system:a", "user:b"), "[system:a][user:b]"),
        (ONE_FIRST, conversation("system:a", "system:b", "user:c"), "[system:a\n\nb][user:c]"),
        (ONE_FIRST, conversation("user:b", "system:c"), "[user:b][user:c]"),
        (
            ONE_FIRST,
            conversation("system:a", "user:b", "assistant:c", "system:d", "user:e"),
            "[system:a][user:b][assistant:c][user:d][user:e]",
        ),
        (DROPS, conversation("system:a", "user:b", "system:c"), "[system:a][user:b][user:c]"),
        (LEADING, conversation("system:a", "system:b", "user:c"), "[system:a][system:b][user:c]"),
        (LEADING, conversation("system:a", "user:c", "system:d"), "[system:a][user:c][user:d]"),
        (NONE, conversation("system:a", "user:b"), "[user:a\n\nb]"),
        (NONE, conversation("system:a", "user:b", "system:c", "user:d"), "[user:a\n\nb][user:c][user:d]"),
        (NONE, conversation("system:a", "assistant:b"), "[user:a][assistant:b]"),
        (NONE, conversation("system:a"), "[user:a]"),
        (NONE, conversation("user:b"), "[user:b]"),
        (TURNS, conversation("user:a", "user:b", "system:c"), "[user:a\n\nb\n\nc]"),
        (TURNS, conversation("user:a", "assistant:b", "assistant:c"), "[user:a][assistant:b\n\nc]"),
        (TURNS, conversation("assistant:a", "user:b"), "[user:...][assistant:a][user:b]"),
    ],
)
def test_messages_go_where_the_template_takes_them(
    template: str, messages: list[dict[str, Any]], text: str
) -> None:
    tokenizer: Any = Templated(template)
    assert render(messages, [], tokenizer).text == text


CALLS = """\
{% for m in messages %}[{{ m.role }}:{{ m.content }}]
{%- for call in m.tool_calls or () %}{{ call.function.arguments | tojson }}{% endfor %}{% endfor %}"""


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        (None, {}),
        ("", {}),
        ([1], {"arguments": [1]}),
        ("[1]", {"arguments": [1]}),
    ],
)
def test_a_template_gets_arguments_as_an_object_however_the_client_sends_them(
    arguments: object, taken: object
) -> None:
    tokenizer: Any = Templated(CALLS)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    turn = {"role": "assistant", "content": "b", "tool_calls": [call]}
    text = render([*conversation("user:a"), turn], [], tokenizer).text
    assert json.loads(text.partition("[assistant:b]")[2]) == taken


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        (None, {}),
        ("", {}),
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        ([1], "[1]"),
        (3, "3"),
        ("[1]", "[1]"),
        ("no JSON", "no JSON"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["none", "empty", "parsed", "object", "parsed list", "number", "list", "no JSON", "deep"],
)
def test_arguments_of_a_call_are_an_object_or_the_text_that_they_are(given: Any, rendered: Any) -> None:
    assert _arguments(given) == rendered


def test_what_a_template_takes_is_found_out_once_for_each_model() -> None:
    tokenizer: Any = Templated(ONE_FIRST)
    render(conversation("user:b"), [], tokenizer)
    asked = tokenizer.rendered
    for number in range(3):
        render(conversation("system:a", "user:b", "system:c"), [], tokenizer)
        assert tokenizer.rendered == asked + number + 1


def test_shaping_leaves_the_conversation_it_was_given_alone() -> None:
    tokenizer: Any = Templated(NONE)
    messages = conversation("system:a", "user:b")
    render(messages, [], tokenizer)
    assert messages == conversation("system:a", "user:b")


def test_what_was_replaced_is_counted() -> None:
    tokenizer: Any = Templated(TURNS)
    rendered = render(conversation("assistant:a", "user:b", "user:c", "system:d"), [], tokenizer)
    assert rendered.replaced == {"turns": 3, "system-messages": 1}
    assert render(conversation("user:b"), [], tokenizer).replaced == {}


def test_a_real_template_that_takes_them_gets_them_as_they_are(endless_tokenizer: Tokenizer) -> None:
    rendered = render(conversation("user:hi", "system:be brief"), [], endless_tokenizer)
    assert rendered.text == "<|start|>user:hi<|end|><|start|>system:be brief<|end|><|start|>assistant:"
    assert rendered.replaced == {}
