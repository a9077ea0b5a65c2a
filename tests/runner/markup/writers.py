"""Calls as each family writes them: written from the chat templates, and apart from what reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Call = tuple[str, dict[str, Any]]
Writer = Callable[[Sequence[Call]], str]
NS = "]<]minimax[>["


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Any) -> str:
    """Text as it is, everything else as JSON: what templates with a tag for each argument do."""
    return value if isinstance(value, str) else dumps(value)


def listed(start: str, end: str, name: str = "name", arguments: str = "arguments") -> Writer:
    def write(calls: Sequence[Call]) -> str:
        return start + dumps([{name: n, arguments: a} for n, a in calls]) + end

    return write


def repeated(start: str, end: str, form: Callable[[int, str, Mapping[str, Any]], str]) -> Writer:
    def write(calls: Sequence[Call]) -> str:
        return start + "".join(form(i, n, a) for i, (n, a) in enumerate(calls)) + end

    return write


def invoked(prefix: str, start: str, end: str) -> Writer:
    def form(_: int, name: str, arguments: Mapping[str, Any]) -> str:
        values = "".join(
            f'<{prefix}parameter name="{k}">{raw(v)}</{prefix}parameter>\n' for k, v in arguments.items()
        )
        return f'<{prefix}invoke name="{name}">\n{values}</{prefix}invoke>\n'

    return repeated(start, end, form)


def dsml(_: int, name: str, arguments: Mapping[str, Any]) -> str:
    values = "".join(
        f'<｜DSML｜parameter name="{k}" string="{str(isinstance(v, str)).lower()}">{raw(v)}</｜DSML｜parameter>\n'
        for k, v in arguments.items()
    )
    return f'<｜DSML｜invoke name="{name}">\n{values}</｜DSML｜invoke>\n'


def keyed(
    suffix: str = "", prefix: str = "", gap: str = "\n", separated: bool = False
) -> Callable[[int, str, Mapping[str, Any]], str]:
    def form(_: int, name: str, arguments: Mapping[str, Any]) -> str:
        values = "".join(
            f"<{prefix}arg_key{suffix}>{k}</{prefix}arg_key{suffix}>{gap}"
            f"<{prefix}arg_value{suffix}>{raw(v)}</{prefix}arg_value{suffix}>{gap}"
            for k, v in arguments.items()
        )
        separator = f"<tool_sep{suffix}>" if separated else ""
        return f"<{prefix}tool_call{suffix}>{name}{separator}{gap}{values}</{prefix}tool_call{suffix}>"

    return form


def named(start: str, end: str, line: str) -> Writer:
    def form(_: int, name: str, arguments: Mapping[str, Any]) -> str:
        values = "".join(f"<parameter={k}>{line}{raw(v)}{line}</parameter>\n" for k, v in arguments.items())
        return f"{start}\n<function={name}>\n{values}</function>\n{end}"

    return repeated("", "", form)


def cdata(_: int, name: str, arguments: Mapping[str, Any]) -> str:
    def value(v: Any) -> str:
        text = raw(v)
        return f"<![CDATA[{text}]]>" if any(c in text for c in "<&\n") else text

    values = "".join(f'<param name="{k}">{value(v)}</param>' for k, v in arguments.items())
    return f'<function name="{name}">{values}</function>'


def gemma(quote: str) -> Callable[[Any], str]:
    def write(value: Any) -> str:
        if isinstance(value, str):
            return quote + value + quote
        if isinstance(value, dict):
            return "{" + ",".join(f"{k}:{write(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ",".join(map(write, value)) + "]"
        return dumps(value)

    return write


def gemma_calls(start: str, end: str, quote: str) -> Writer:
    return repeated("", "", lambda _, n, a: f"{start}call:{n}{gemma(quote)(dict(a))}{end}")


def pythonic(calls: Sequence[Call]) -> str:
    written = (f"{n}({', '.join(f'{k}={v!r}' for k, v in a.items())})" for n, a in calls)
    return f"<|tool_call_start|>[{', '.join(written)}]<|tool_call_end|>"


def xtml(calls: Sequence[Call]) -> str:
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", dict: "object", list: "array"}

    def value(key: str, v: Any) -> str:
        kind = kinds.get(type(v), "null")
        return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{raw(v)}<|close|>argument<|sep|>'

    inner = "".join(
        f'<|open|>call tool="{n}" index="{i + 1}"<|sep|>'
        + "".join(value(k, v) for k, v in a.items())
        + "<|close|>call<|sep|>"
        for i, (n, a) in enumerate(calls)
    )
    return f"<|open|>tools<|sep|>{inner}<|close|>tools<|sep|>"


def nested(calls: Sequence[Call]) -> str:
    def value(v: Any) -> str:
        if isinstance(v, dict):
            return "".join(f"{NS}<{k}>{value(each)}{NS}</{k}>" for k, each in v.items())
        if isinstance(v, list):
            return "".join(f"{NS}<item>{value(each)}{NS}</item>" for each in v)
        return raw(v)

    inner = "".join(f'{NS}<invoke name="{n}">{value(dict(a))}{NS}</invoke>\n' for n, a in calls)
    return f"{NS}<tool_call>\n{inner}{NS}</tool_call>"


def harmony(calls: Sequence[Call]) -> str:
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{dumps(a)}<|call|>"
        for n, a in calls
    )


def muse(calls: Sequence[Call]) -> str:
    write = invoked("atem:", "<atem:function_calls>\n", "</atem:function_calls>")
    return "<|start|>assistant".join(f" to={n}<|message|>{write([(n, a)])}<|eom|>" for n, a in calls)


WRITERS: Mapping[str, Writer] = {
    "harmony": harmony,
    "muse": muse,
    "kimi-k3": xtml,
    "kimi-k2": repeated(
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        lambda i, n, a: (
            f"<|tool_call_begin|>functions.{n}:{i}<|tool_call_argument_begin|>{dumps(a)}<|tool_call_end|>"
        ),
    ),
    "deepseek-v3.2": repeated("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>", dsml),
    "deepseek-v3": repeated(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        lambda i, n, a: f"<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{dumps(a)}<｜tool▁call▁end｜>",
    ),
    "minimax-m3": nested,
    "minimax-m2": invoked("", "<minimax:tool_call>\n", "</minimax:tool_call>"),
    "hunyuan-3": repeated(
        "<tool_calls:opensource>\n", "\n</tool_calls:opensource>", keyed(":opensource", separated=True)
    ),
    "longcat": repeated("", "", keyed(prefix="longcat_")),
    "hunyuan": repeated("<tool_calls>\n", "\n</tool_calls>", keyed(separated=True)),
    "glm": repeated("", "", keyed(gap="")),
    "seed": named("<seed:tool_call>", "</seed:tool_call>", ""),
    "qwen3-coder": named("<tool_call>", "</tool_call>", "\n"),
    "functionary-3.1": repeated("", "", lambda i, n, a: f"<function={n}>{dumps(a)}</function>"),
    "minicpm": repeated("", "", cdata),
    "gemma-4": gemma_calls("<|tool_call>", "<tool_call|>", '<|"|>'),
    "function-gemma": gemma_calls("<start_function_call>", "<end_function_call>", "<escape>"),
    "lfm2": pythonic,
    "mistral": repeated("", "", lambda i, n, a: f"[TOOL_CALLS]{n}[CALL_ID]abcdefgh{i}[ARGS]{dumps(a)}"),
    "command": listed("<|START_ACTION|>", "<|END_ACTION|>", "tool_name", "parameters"),
    "apertus": lambda calls: "<|tools_prefix|>" + dumps([{n: a} for n, a in calls]) + "<|tools_suffix|>",
    "gigachat": repeated("", "", lambda i, n, a: "<|function_call|>" + dumps({"name": n, "arguments": a})),
    "tool-calls": listed("<tool_calls>", "</tool_calls>"),
    "nemotron-2": listed("<TOOLCALL>", "</TOOLCALL>"),
    "granite-3": listed("<|tool_call|>", ""),
    "solar": repeated(
        "<|tool_calls|>",
        "<|calls|>",
        lambda i, n, a: (
            f"<|tool_call:begin|>call-{i}<|tool_call:name|>{n}<|tool_call:args|>{dumps(a)}<|tool_call:end|>"
        ),
    ),
    "hermes": repeated(
        "", "", lambda i, n, a: "<tool_call>\n" + dumps({"name": n, "arguments": a}) + "\n</tool_call>\n"
    ),
    "functionary-3.2": lambda calls: ">>>".join(f"{n}\n{dumps(a)}" for n, a in calls),
    "llama-3": lambda calls: "; ".join(dumps({"name": n, "parameters": a}) for n, a in calls),
}
"""By the family's name in ``reconciler.runner.markup.families``."""

OTHER_WAYS: Sequence[tuple[str, Writer]] = (
    (
        "deepseek-v3",
        repeated(
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁calls▁end｜>",
            lambda i, n, a: (
                f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{dumps(a)}\n```<｜tool▁call▁end｜>\n"
            ),
        ),
    ),
    ("deepseek-v3.2", repeated("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>", dsml)),
    ("mistral", listed("[TOOL_CALLS]", "")),
    ("mistral", repeated("", "", lambda i, n, a: f"[TOOL_CALLS]{n}{dumps(a)}")),
    ("mistral", repeated("", "", lambda i, n, a: f"[TOOL_CALLS]{n}[ARGS]{dumps(a)}")),
    ("gigachat", lambda calls: _gigachat(calls)),
    ("llama-3", repeated("", "", lambda i, n, a: "<|python_tag|>" + dumps({"name": n, "parameters": a}))),
    ("hermes", listed("<tool_call>", "</tool_call>")),
    ("glm", repeated("", "", keyed())),
    (
        "longcat",
        repeated(
            "",
            "",
            lambda i, n, a: f"<longcat_tool_call>{dumps({'name': n, 'arguments': a})}</longcat_tool_call>\n",
        ),
    ),
    (
        "harmony",
        lambda calls: "<|start|>assistant".join(
            f" to=functions.{n}<|channel|>commentary json<|message|>{dumps(a)}<|call|>" for n, a in calls
        ),
    ),
)
"""Further ways in which templates of a family write."""


def _gigachat(calls: Sequence[Call]) -> str:
    return "".join(
        f"<|message_sep|>\n\nfunction call<|role_sep|>\n{dumps({'name': n, 'arguments': a})}"
        for n, a in calls
    )
