"""Tools, ids of calls and variables of the template, as a model's own template takes them."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from mlx_lm.utils import load

from reconciler.runner.model.adapter import Tokenizer
from reconciler.runner.requests.calls import SHORT, shape_ids
from reconciler.runner.requests.conversation import render
from reconciler.runner.requests.prompt import read_prompt, tools_problem
from reconciler.runner.requests.unanswerable import Unanswerable
from tests.runner.ranks import question

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
SAYS = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
SHOWS = "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
NINE = (
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.id|length != 9 %}"
    "{{ raise_exception('nine') }}{% endif %}{{ c.id }}{{ c.function.arguments }}{% endfor %}{{ m.content }}{{ m.tool_call_id }}{% endfor %}"
)


@pytest.fixture
def templated(endless: Any) -> Any:
    """A tokenizer with another chat template."""

    def make(template: str) -> Tokenizer:
        wrapped: Any = load(str(endless))[1]
        wrapped.chat_template = template
        return Tokenizer(wrapped)

    return make


def refused(tokenizer: Tokenizer, **fields: Any) -> tuple[str, str, str | None]:
    with pytest.raises(Unanswerable) as error:
        read_prompt(question("a", "Hello", **fields), tokenizer, 300, 4096)
    failed = error.value.failed("a")
    return failed.code, failed.text, failed.parameter


def test_tools_are_refused_where_the_template_does_not_show_them(templated: Any) -> None:
    code, text, parameter = refused(templated(SAYS + "<tool_call>"), tools=(TOOL,))
    assert (code, parameter) == ("invalid_request", "tools")
    assert text.startswith("this model's chat template does not show tools to the model: send no tools")


def test_a_template_that_raises_only_with_tools_is_told_in_its_own_words(templated: Any) -> None:
    tokenizer = templated("{% if tools %}{{ raise_exception('No tools,\nplease') }}{% endif %}" + SAYS)
    assert tools_problem(tokenizer) == "this model's chat template raises with tools: No tools, please"
    code, text, parameter = refused(tokenizer, tools=(TOOL,))
    assert (code, parameter) == ("invalid_request", "tools")
    assert "No tools,\nplease" in text
    assert refused_not(tokenizer)


def refused_not(tokenizer: Tokenizer) -> bool:
    return bool(read_prompt(question("a", "Hello"), tokenizer, 300, 4096).tokens)


def test_tools_are_refused_where_calls_could_not_be_read(templated: Any) -> None:
    tokenizer = templated(SHOWS + SAYS)
    tokenizer.known = dataclasses.replace(
        tokenizer.known, family=dataclasses.replace(tokenizer.known.family, format=None)
    )
    _, text, parameter = refused(tokenizer, tools=(TOOL,))
    assert parameter == "tools"
    assert "in a form that is not known here" in text
    assert read_prompt(question("a", "Hello"), tokenizer, 300, 4096).tokens


def test_variables_reach_the_template_but_none_that_would_be_arguments_of_what_renders_it(
    templated: Any,
) -> None:
    tokenizer = templated(SAYS + "{{ reasoning_effort }}/{{ enable_thinking }}")
    variables = {"reasoning_effort": "low", "enable_thinking": False}
    assert render([{"role": "user", "content": "x"}], (), tokenizer, variables).text == "user:x;low/False"
    _, text, parameter = refused(tokenizer, template={"chat_template": "{{ 1 }}"})
    assert (text, parameter) == ("chat_template is no variable of a chat template", "chat_template_kwargs")


def test_ids_of_another_form_become_nine_letters_where_the_template_takes_no_others(templated: Any) -> None:
    tokenizer = templated(SHOWS + NINE)
    messages = conversation("call_0123456789abcdef01234567")
    before = copy.deepcopy(messages)
    text = render(messages, (), tokenizer).text
    short = text[-9:]
    assert SHORT.fullmatch(short)
    assert text.count(short) == 2
    assert messages == before
    assert render(conversation("abcdefghi"), (), tokenizer).text.count("abcdefghi") == 2


def conversation(id: str) -> list[dict[str, Any]]:
    call = {"id": id, "type": "function", "function": {"name": "look", "arguments": {}}}
    return [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "done"},
    ]


def test_ids_are_written_as_a_pattern_asks_and_kept_where_they_are_so() -> None:
    messages = [*conversation("functions.look:7"), *conversation("call_1")]
    shape_ids(messages, "functions.{name}:{index}", False)
    assert [m["tool_calls"][0]["id"] for m in messages if "tool_calls" in m] == [
        "functions.look:7",
        "functions.look:1",
    ]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == [
        "functions.look:7",
        "functions.look:1",
    ]
