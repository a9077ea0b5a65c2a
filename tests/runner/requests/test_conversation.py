"""System messages where a model's template takes them, and where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import pytest

from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.conversation import TemplateTraits, fold_system, render

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


class Templated:
    """Renders with a template of the test's own, as a tokenizer does."""

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
        (ONE_FIRST, conversation("user:b", "system:c"), "[system:c][user:b]"),
        (
            ONE_FIRST,
            conversation("system:a", "user:b", "assistant:c", "system:d", "user:e"),
            "[system:a\n\nd][user:b][assistant:c][user:e]",
        ),
        (DROPS, conversation("system:a", "user:b", "system:c"), "[system:a\n\nc][user:b]"),
        (LEADING, conversation("system:a", "system:b", "user:c"), "[system:a][system:b][user:c]"),
        (LEADING, conversation("system:a", "user:c", "system:d"), "[system:a\n\nd][user:c]"),
        (NONE, conversation("system:a", "user:b"), "[user:a\n\nb]"),
        (NONE, conversation("system:a", "user:b", "system:c", "user:d"), "[user:a\n\nc\n\nb][user:d]"),
        (NONE, conversation("system:a", "assistant:b"), "[user:a][assistant:b]"),
        (NONE, conversation("system:a"), "[user:a]"),
        (NONE, conversation("user:b"), "[user:b]"),
    ],
)
def test_system_messages_go_where_the_template_takes_them(
    template: str, messages: list[dict[str, Any]], text: str
) -> None:
    tokenizer: Any = Templated(template)
    assert render(messages, [], tokenizer) == text


def test_what_a_template_takes_is_found_out_once_for_each_model() -> None:
    tokenizer: Any = Templated(ONE_FIRST)
    for _ in range(3):
        render(conversation("system:a", "user:b", "system:c"), [], tokenizer)
    assert tokenizer.rendered == 3 + 3
    without: Any = Templated(ONE_FIRST)
    render(conversation("user:b"), [], without)
    assert without.rendered == 1


def test_folding_leaves_the_conversation_it_was_given_alone() -> None:
    tokenizer: Any = Templated(NONE)
    messages = conversation("system:a", "user:b")
    fold_system(messages, TemplateTraits(tokenizer))
    assert messages == conversation("system:a", "user:b")


def test_a_real_template_that_takes_them_gets_them_as_they_are(endless_tokenizer: Tokenizer) -> None:
    text = render(conversation("user:hi", "system:be brief"), [], endless_tokenizer)
    assert text == "<|start|>user:hi<|end|><|start|>system:be brief<|end|><|start|>assistant:"
