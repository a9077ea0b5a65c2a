"""A pytest plugin: writes what vLLM's parsers make of each text of vLLM's own tests, one JSON object a line, into ``RECORD``.

vLLM's tests fetch tokenizers; here all of them get the vocabulary in the file ``VOCABULARY``, with every family's markers.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from reconciler.runner.markup.families import FAMILIES, THINKING

WHOLE = {"extract_tool_calls": "calls", "extract_reasoning": "reasoning", "parse": "both"}
STREAMED = ("extract_tool_calls_streaming", "extract_reasoning_streaming", "parse_delta")
BASES = (
    ("vllm.tool_parsers.abstract_tool_parser", "ToolParser"),
    ("vllm.reasoning.abs_reasoning_parsers", "ReasoningParser"),
    ("vllm.parser.abstract_parser", "Parser"),
)
MORE = frozenset(
    [
        "</arg_key>",
        "</seed:cot_budget_reflect>",
        "</steptml:invoke>",
        "</steptml:parameter>",
        "<seed:bos>",
        "<seed:cot_budget_reflect>",
        "<seed:eos>",
        "<tool_response|>",
        "<turn|>",
        "<|CHATBOT_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|START_OF_TURN_TOKEN|>",
        "<|action_end|>",
        "<|action_start|>",
        "<|assistant|>",
        "<|channel>",
        "<|close|>",
        "<|content_KIND|>",
        "<|content_invoke_tool_json|>",
        "<|content_invoke_tool_text|>",
        "<|content_model_end_sampling|>",
        "<|content_text|>",
        "<|content_thinking|>",
        "<|content_tool_error|>",
        "<|end_message|>",
        "<|end_of_msg|>",
        "<|endoftext|>",
        "<|header_end|>",
        "<|im_end|>",
        "<|im_start|>",
        "<|message_model|>",
        "<|message_system|>",
        "<|observation|>",
        "<|open|>",
        "<|plamo:begin_think:plamo|>",
        "<|plamo:begin_tool_arguments:plamo|>",
        "<|plamo:begin_tool_name:plamo|>",
        "<|plamo:begin_tool_request:plamo|>",
        "<|plamo:begin_tool_requests:plamo|>",
        "<|plamo:bos|>",
        "<|plamo:constrain|>",
        "<|plamo:end_think:plamo|>",
        "<|plamo:end_tool_arguments:plamo|>",
        "<|plamo:end_tool_name:plamo|>",
        "<|plamo:end_tool_request:plamo|>",
        "<|plamo:end_tool_requests:plamo|>",
        "<|plamo:msg|>",
        "<|plamo:tag|>",
        "<|plugin|>",
        "<|python_end|>",
        "<|python_start|>",
        "<|role_sep|>",
        "<|start|>",
        "<|system|>",
        "<|tool_response>",
        "<|turn>",
        "<|user|>",
        "<｜end▁of▁sentence｜>",
        "<｜hy_Assistant｜>",
        "<｜hy_User｜>",
        "<｜hy_begin▁of▁sentence｜>",
        "<｜reasoning_mode｜>",
        "<｜tool_call_begin｜>",
        "<｜tool_call_end｜>",
        "<｜tool_calls_begin｜>",
        "<｜tool_calls_end｜>",
        "<｜tool_sep｜>",
    ]
)
"""Markers of models that are no family here."""
_rows: list[dict[str, Any]] = []
_depth = [0]
_test = [""]


@functools.cache
def tokenizer() -> Any:
    vocabulary = Tokenizer.from_file(os.environ["VOCABULARY"])
    markers = {marker for known in FAMILIES for marker in known.family.markers}
    markers |= {marker.strip() for pair in THINKING for marker in pair} | MORE
    vocabulary.add_special_tokens(
        [AddedToken(each, special=True, normalized=False) for each in sorted(markers) if each[:1] in "<["]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=vocabulary, eos_token="<|im_end|>", bos_token="<|endoftext|>"
    )


def _any(*given: Any, **named: Any) -> Any:
    return tokenizer()


def _tools(of: Any) -> list[Any]:
    given = getattr(of, "tools", None)
    found = given if isinstance(given, (list, tuple)) else []
    return [each if isinstance(each, dict) else each.model_dump(exclude_none=True) for each in found]


def _calls(given: Any) -> list[Any]:
    functions = [getattr(each, "function", each) for each in given or []]
    return [[each.name, each.arguments] for each in functions]


def _result(kind: str, found: Any) -> dict[str, Any]:
    if kind == "calls":
        return {"calls": _calls(found.tool_calls), "content": found.content}
    if kind == "reasoning":
        return {"reasoning": found[0], "content": found[1]}
    return {"reasoning": found[0], "content": found[1], "calls": _calls(found[2])}


def _row(parser: Any, kind: str, text: str, request: Any) -> dict[str, Any]:
    name = type(parser).__module__.rpartition(".")[2] + "." + type(parser).__name__
    engine = type(getattr(parser, "_parser_engine", None)).__name__
    row = {"test": _test[0], "kind": kind, "parser": name, "engine": engine, "text": text}
    return {**row, "tools": _tools(parser) or _tools(request)}


def _recorded(function: Callable[..., Any], kind: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorded(self: Any, *given: Any, **named: Any) -> Any:
        _depth[0] += 1
        try:
            found = function(self, *given, **named)
        finally:
            _depth[0] -= 1
        text = named.get("model_output", given[0] if given else None)
        if not _depth[0] and isinstance(text, str):
            request = named.get("request", given[1] if len(given) > 1 else None)
            _rows.append(_row(self, kind, text, request) | _result(kind, found))
        return found

    recorded.__dict__["recorded"] = True
    return recorded


def _streamed(function: Callable[..., Any], deltas: bool) -> Callable[..., Any]:
    """Record the text so far of each call, and what all calls for it have given. ``deltas``: each gets what is new alone."""

    @functools.wraps(function)
    def recorded(self: Any, *given: Any, **named: Any) -> Any:
        _depth[0] += 1
        try:
            found = function(self, *given, **named)
        finally:
            _depth[0] -= 1
        if _depth[0]:
            return found
        row = self.__dict__.get("_recorded_row")
        before = row["text"] if row is not None else ""
        if deltas:
            text = before + str(named.get("delta_text", given[0] if given else ""))
        else:
            text = named.get("current_text", given[1] if len(given) > 1 else "")
        if row is None or row["test"] != _test[0] or not text.startswith(before):
            request = named.get("request", given[-1] if given else None)
            row = _row(self, "stream", text, request) | {"calls": [], "content": "", "reasoning": ""}
            self.__dict__["_recorded_row"] = row
            _rows.append(row)
        row["text"] = text
        _add(row, found)
        return found

    recorded.__dict__["recorded"] = True
    return recorded


def _add(row: dict[str, Any], delta: Any) -> None:
    row["content"] += getattr(delta, "content", None) or ""
    row["reasoning"] += getattr(delta, "reasoning", None) or ""
    for call in getattr(delta, "tool_calls", None) or []:
        while len(row["calls"]) <= call.index:
            row["calls"].append(["", ""])
        if call.function is not None:
            row["calls"][call.index][0] += call.function.name or ""
            row["calls"][call.index][1] += call.function.arguments or ""


def _subclasses(of: type[Any]) -> Iterator[type[Any]]:
    for each in type.__subclasses__(of):
        yield each
        yield from _subclasses(each)


def _install() -> None:
    for module, name in BASES:
        base: Any = getattr(importlib.import_module(module), name)
        found: list[type[Any]] = [base, *_subclasses(base)]
        for each in found:
            _replace(each)


def _replace(parser: type[Any]) -> None:
    """Replace the methods of a class of parsers by ones that record."""
    for method in (*WHOLE, *STREAMED):
        function = parser.__dict__.get(method)
        if not callable(function) or "recorded" in function.__dict__:
            continue
        if method in WHOLE:
            setattr(parser, method, _recorded(function, WHOLE[method]))
        else:
            setattr(parser, method, _streamed(function, method == "parse_delta"))


def pytest_configure(config: pytest.Config) -> None:
    transformers.AutoTokenizer.from_pretrained = _any
    for module, names in {
        "vllm.tokenizers": ["get_tokenizer"],
        "vllm.tokenizers.registry": ["get_tokenizer", "cached_get_tokenizer"],
    }.items():
        for name in names:
            setattr(importlib.import_module(module), name, _any)


def pytest_runtest_setup(item: pytest.Item) -> None:
    _test[0] = item.nodeid
    _rows.clear()
    _depth[0] = 0
    _install()


def pytest_runtest_call(item: pytest.Item) -> None:
    _install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "call" and report.outcome == "passed" and not hasattr(report, "wasxfail"):
        with Path(os.environ["RECORD"]).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in _rows)
    return report
