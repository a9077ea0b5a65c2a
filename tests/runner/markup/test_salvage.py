"""What models break is mended, and what cannot be mended is content: nothing is lost, and no call is half."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.runner.markup.channels import Channels
from reconciler.runner.markup.families import THINKING
from reconciler.runner.markup.json_text import DEPTH_MAX
from tests.examples import examples

from .reading import BY_NAME, read, tools_for
from .test_calls import MARKUP, cut
from .writers import WRITERS

TOOLS = tools_for([("look", {"at": "x", "times": 1, "deep": {}})])

MENDED: list[tuple[str, str, dict[str, Any]]] = [
    ("hermes", '<tool_call>{"name": "look", "arguments": {"at": "a\nb\tc"}}</tool_call>', {"at": "a\nb\tc"}),
    ("hermes", '<tool_call>{"name": "look", "arguments": {"at": "\\d+\\\'"}}</tool_call>', {"at": "\\d+'"}),
    ("hermes", '<tool_call>{"name": "look", "arguments": {"at": None, "deep": True}}', {"at": None, "deep": True}),
    ("hermes", '<tool_call>{"name": "look", "arguments": "{\\"at\\": 1}"}</tool_call>', {"at": 1}),
    ("hermes", '<tool_call>{"arguments": {"at": 1}, "name": "look"}</tool_call>', {"at": 1}),
    ("hermes", '<tool_call>{"name": "look"}</tool_call>', {}),
    ("hermes", '<tool_call>{"name": "look", "arguments": null}</tool_call>', {}),
    ("hermes", '<tool_call>{"type": "function", "function": {"name": "look", "arguments": {"at": 1}}}', {"at": 1}),
    ("kimi-k2", '<|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{"at": 1}', {"at": 1}),
    ("deepseek-v3", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"at": 1}', {"at": 1}),
    ("seed", "<seed:tool_call><function=look><parameter=deep>{'a': [1, None]}</parameter></function>", {"deep": {"a": [1, None]}}),
    ("qwen3-coder", "<tool_call><function=look><parameter=times>True</parameter></function>", {"times": True}),
    ("harmony", '<|channel|>analysis to=functions.look<|message|>{"at": 1}<|call|>', {"at": 1}),
    ("longcat", '<longcat_tool_call>{"name": "look", "arguments": {"at": 1}}</longcat_tool_call>', {"at": 1}),
    ("qwen3-coder", '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>', {"at": 1}),
    ("gemma-4", '<|tool_call>:look{at:<|"|>x<|"|>}<tool_call|>', {"at": "x"}),
    ("gemma-4", '<|tool_call>look{at:<|"|>x<|"|>}<tool_call|>', {"at": "x"}),
    ("granite-3", '<tool_call> [{"name": "look", "arguments": {"at": 1}}]', {"at": 1}),
    ("lfm2", "<|tool_call_start|>[look(at='sed -n '1,2p' f', times=07)]<|tool_call_end|>", {"at": "sed -n '1,2p' f", "times": 7}),
    ("lfm2", "<|tool_call_start|>[look(at={'a', 'b'}, deep={'x': {}})]<|tool_call_end|>", {"at": ["a", "b"], "deep": {"x": {}}}),
    ("minicpm", '<function name="look"><param name="properties">{\'times\': 2}</param></function>', {"times": 2}),
]  # fmt: skip

CONTENT = [
    ("hermes", "<tool_call>not json</tool_call>"),
    ("hermes", '<tool_call>{"name": "look", "arguments": {"at": 1,}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "look", "arguments": [1]}</tool_call>'),
    ("hermes", '<tool_call>{"name": "", "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "look", "arguments": {"at": "x'),
    ("llama-3", '{"name": "Bob", "parameters": {}}'),
    ("llama-3", '{"answer": 42}'),
    ("mistral", "[TOOL_CALLS]look[ARGS]nothing"),
    ("qwen3-coder", "<tool_call><function=look><parameter=at>x"),
    ("glm", "<tool_call>look<arg_key>at</arg_key>"),
    ("lfm2", "<|tool_call_start|>[look(at=1<|tool_call_end|>"),
    ("gemma-4", '<|tool_call>call:look{at:<|"|>x'),
    ("minimax-m3", ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="look">]<]minimax[>[<at>x'),
    (
        "minimax-m3",
        ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="look">]<]minimax[>[<at>x]<]minimax[>[</at>'
        "]<]minimax[>[<at>y]<]minimax[>[</at>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
    ),
    (
        "glm",
        "<tool_call>look<arg_key>at</arg_key><arg_value>x</arg_value><arg_key>at</arg_key><arg_value>y</arg_value></tool_call>",
    ),
    ("kimi-k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
    ("functionary-3.2", "look\nnothing"),
    ("llama-3", '{"name": "look"}'),
    ("lfm2", "<|tool_call_start|>[look(at='f('a')')]<|tool_call_end|>"),
    ("minicpm", '<function name="look"><param name="at">a</param><param name="at">b</param></function>'),
]


@pytest.mark.parametrize(("family", "text", "arguments"), MENDED)
def test_what_models_are_known_to_break_is_mended(family: str, text: str, arguments: dict[str, Any]) -> None:
    seen = read(BY_NAME[family].family, text, TOOLS)
    assert seen.parsed == [("look", arguments)]
    assert seen.content == ""


M3 = "]<]minimax[>["


def test_elements_within_each_other_are_read_as_deep_as_json_is() -> None:
    def written(depth: int) -> str:
        inside = "".join(f"{M3}<n>" for _ in range(depth)) + "1" + "".join(f"{M3}</n>" for _ in range(depth))
        return f'{M3}<tool_call>{M3}<invoke name="look">{M3}<deep>{inside}{M3}</deep>{M3}</invoke>{M3}</tool_call>'

    (call,) = read(BY_NAME["minimax-m3"].family, written(DEPTH_MAX - 1), TOOLS).parsed
    value, depth = call[1]["deep"], 0
    while isinstance(value, dict):
        value, depth = value["n"], depth + 1
    assert depth == DEPTH_MAX - 1
    seen = read(BY_NAME["minimax-m3"].family, written(DEPTH_MAX), TOOLS)
    assert (seen.parsed, seen.content) == ([], written(DEPTH_MAX))


@pytest.mark.parametrize(
    ("family", "text", "content", "reasoning"),
    [
        ("gemma-4", "<|channel>thought\n<channel|>Hi<channel|>", "Hi", ""),
        ("gemma-4", "<|channel><|channel>thought\nSo.<channel|>Hi", "Hi", "So."),
        ("gemma-4", "<|channel>So.<channel|>Hi", "Hi", "So."),
        ("harmony", "<|channel|>commentary to=assistant<|channel|>analysis<|message|>So.<|end|>", "", "So."),
        ("harmony", "<|channel|>commentary to=assistant<|channel|>final<|message|>Hi", "Hi", ""),
        ("kimi-k3", "<|open|>response<|sep|>Hi<|close|>response<|sep|>", "Hi", ""),
    ],
)
def test_markers_that_stray_or_come_twice_are_no_text(
    family: str, text: str, content: str, reasoning: str
) -> None:
    known = BY_NAME[family].family
    if not isinstance(known, Channels):
        known = dataclasses.replace(known, thinking=THINKING)
    prompt = "<|open|>think<|sep|>" if family == "kimi-k3" else ""
    for pieces in ([text], text):
        seen = read(known, pieces, TOOLS, prompt)
        assert (seen.content, seen.reasoning, seen.calls) == (content, reasoning, [])


@pytest.mark.parametrize(("family", "text"), CONTENT)
def test_what_is_no_call_is_content_as_it_was_written(family: str, text: str) -> None:
    seen = read(BY_NAME[family].family, text, TOOLS)
    assert (seen.content, seen.calls) == (text, [])


def test_a_broken_call_takes_no_complete_one_with_it() -> None:
    good = '<tool_call>{"name": "look", "arguments": {"at": 1}}</tool_call>'
    seen = read(BY_NAME["hermes"].family, f"{good}<tool_call>oops</tool_call>{good}", TOOLS)
    assert seen.parsed == [("look", {"at": 1})] * 2
    assert seen.content == "<tool_call>oops</tool_call>"


pieces = st.sampled_from(
    [*MARKUP, "look", '{"name": "look", "arguments": {', '"at": "', "</", "functions.look:0"]
)


@pytest.mark.parametrize("family", list(WRITERS))
@settings(max_examples=examples(60))
@given(noise=st.lists(pieces, max_size=8), seed=st.integers(0, 2**32), place=st.floats(0, 1))
def test_a_spoiled_call_is_read_alike_however_it_is_cut_and_never_half(
    family: str, noise: list[str], seed: int, place: float
) -> None:
    written = WRITERS[family]([("look", {"at": "some text", "times": 3, "deep": {"x": [1, "y"]}})])
    at = int(place * len(written))
    spoiled = written[:at] + "".join(noise) + written[at + len(noise) :]
    whole = read(BY_NAME[family].family, [spoiled], TOOLS)
    in_pieces = read(BY_NAME[family].family, cut(spoiled, seed), TOOLS)
    assert (in_pieces.content, in_pieces.reasoning, in_pieces.calls) == (
        whole.content,
        whole.reasoning,
        whole.calls,
    )
    assert all(isinstance(json.loads(arguments), dict) for _, _, arguments in whole.calls)
    for fragment in in_pieces.withdrawn:
        with pytest.raises(ValueError, match=r"."):
            json.loads(fragment)
