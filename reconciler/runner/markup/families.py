"""Finds the family of a model from its chat template and its vocabulary, never from its name.

The formats are those that the chat templates of llama.cpp's collection render and ask for (``models/templates``; each is
in the table of ``docs/models.md``), checked against mlx-lm's ``tool_parsers`` and vLLM's ``vllm/tool_parsers``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from .answer import Family
from .calls import Format
from .channels import Channels, functionary_route, harmony_route, muse_route
from .headed_calls import HeadedCalls
from .json_calls import JsonCalls
from .loose_calls import LooseCalls
from .nested_calls import NestedCalls
from .tagged_calls import TaggedCalls

THINKING = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<think:opensource>", "</think:opensource>"),
    ("<longcat_think>", "</longcat_think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|think:start|>", "<|think:end|>"),
    ("<|channel>thought", "<channel|>"),
    ("<|channel>", "<channel|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("[THINK]", "[/THINK]"),
    ("<|think|>", "<|end|>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:", "Here's my response:"),
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
)
"""Strings that begin and end reasoning, in any family."""

_DSML = "｜DSML｜"
_M3 = "]<]minimax[>["


def _tags(
    prefix: str, invoke: str, value: str, region: Sequence[str], ends: Sequence[str], key: str = '{key}"'
) -> TaggedCalls:
    """Return the format ``<invoke name="…"><value name="…">…</value></invoke>``."""
    return TaggedCalls(
        call=f'<{prefix}{invoke} name="',
        head_ends=('">',),
        value=f'<{prefix}{value} name="',
        value_begins=">",
        value_ends=f"</{prefix}{value}>",
        ends=f"</{prefix}{invoke}>",
        key=re.compile(r'(?P<key>.*?)"(?:\s+string="(?P<text>\w+)")?', re.DOTALL),
        key_written=key,
        region=region,
        region_ends=ends,
    )


def _keyed(
    prefix: str = "", suffix: str = "", separator: Sequence[str] = (), region: str = ""
) -> TaggedCalls:
    """Return the format ``<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>``."""

    def tag(name: str) -> str:
        return f"{prefix}{name}{suffix}>"

    return TaggedCalls(
        call="<" + tag("tool_call"),
        head_ends=(*separator, "<" + tag("arg_key"), "</" + tag("tool_call")),
        value="<" + tag("arg_key"),
        value_begins="<" + tag("arg_value"),
        value_ends="</" + tag("arg_value"),
        ends="</" + tag("tool_call"),
        key=re.compile(rf"(?P<key>.*?)</{re.escape(tag('arg_key'))}", re.DOTALL),
        key_written="{key}</" + tag("arg_key"),
        region=("<" + tag(region),) if region else (),
        region_ends=("</" + tag(region),) if region else (),
    )


def _named(lines: bool, region: str) -> TaggedCalls:
    """Return the format ``<function=…><parameter=…>…</parameter></function>``."""
    return TaggedCalls(
        call="<function=",
        head_ends=(">",),
        value="<parameter=",
        value_begins=">",
        value_ends="</parameter>",
        ends="</function>",
        region=(f"<{region}>",),
        region_ends=(f"</{region}>",),
        lines=lines,
    )


@dataclasses.dataclass(frozen=True)
class Known:
    """A family, and the strings of which each group has one in the chat template or the vocabulary."""

    signs: Sequence[Sequence[str]]
    family: Family
    id_pattern: str = ""
    """The form of call ids that the template takes in the next turn, with ``{name}`` and ``{index}``; empty: any."""


def _known(
    name: str,
    *signs: Sequence[str] | str,
    format: Format,
    dropped: Sequence[str] = (),
    id_pattern: str = "",
) -> Known:
    groups = [(sign,) if isinstance(sign, str) else sign for sign in signs]
    return Known(groups, Family(name, format, dropped=dropped), id_pattern)


_LISTED = JsonCalls(starts=("[TOOL_CALLS]",))
_HARMONY_ENDS = ("<|end|>", "<|call|>", "<|return|>")

FAMILIES: Sequence[Known] = (
    Known(
        (("<|channel|>",), ("<|message|>",)),
        Channels(
            "harmony",
            begins=("<|start|>assistant",),
            message="<|message|>",
            ends=_HARMONY_ENDS,
            route=harmony_route,
            format=JsonCalls(),
        ),
    ),
    Known(
        (("<atem:function_calls>",),),
        Channels(
            "muse",
            begins=("<|start|>assistant",),
            message="<|message|>",
            ends=("<|eom|>", "<|eot|>"),
            route=muse_route,
            format=_tags(
                "atem:", "invoke", "parameter", ("<atem:function_calls>",), ("</atem:function_calls>",)
            ),
        ),
    ),
    _known(
        "kimi-k3",
        "<|open|>",
        "<|sep|>",
        "<|end_of_msg|>",
        format=TaggedCalls(
            call='<|open|>call tool="',
            head_ends=("<|sep|>",),
            value='<|open|>argument key="',
            value_begins="<|sep|>",
            value_ends="<|close|>argument<|sep|>",
            ends="<|close|>call<|sep|>",
            key=re.compile(r'(?P<key>.*?)"(?:\s+type="(?P<text>\w+)")?', re.DOTALL),
            name=re.compile(r'(?P<name>.*?)"(?:\s+index="\d+")?', re.DOTALL),
            key_written='{key}" type="{type}"',
            name_written='{name}" index="{number}"',
            region=("<|open|>tools<|sep|>",),
            region_ends=("<|close|>tools<|sep|>",),
        ),
        dropped=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"),
    ),
    _known(
        "kimi-k2",
        "<|tool_calls_section_begin|>",
        format=HeadedCalls(
            section="<|tool_calls_section_begin|>",
            call="<|tool_call_begin|>",
            separators=("<|tool_call_argument_begin|>",),
            ends=("<|tool_call_end|>",),
            section_ends=("<|tool_calls_section_end|>",),
            head=re.compile(r"(?P<id>(?:functions\.)?(?P<name>[^:\s]+)(?::\d+)?)", re.DOTALL),
            written=(("functions.{name}:{number}<|tool_call_argument_begin|>", "<|tool_call_end|>"),),
        ),
        id_pattern="functions.{name}:{index}",
    ),
    _known(
        "deepseek-v3.2",
        _DSML,
        format=_tags(
            _DSML,
            "invoke",
            "parameter",
            (f"<{_DSML}function_calls>", f"<{_DSML}tool_calls>"),
            (f"</{_DSML}function_calls>", f"</{_DSML}tool_calls>"),
            '{key}" string="{textual}"',
        ),
    ),
    _known(
        "deepseek-v3",
        "<｜tool▁calls▁begin｜>",
        format=HeadedCalls(
            section="<｜tool▁calls▁begin｜>",
            call="<｜tool▁call▁begin｜>",
            separators=("{",),
            ends=("\n```<｜tool▁call▁end｜>", "```<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>"),
            section_ends=("<｜tool▁calls▁end｜>",),
            head=re.compile(
                r"(?:function<｜tool▁sep｜>)?(?P<name>[^\s<]+)(?:<｜tool▁sep｜>)?\s*(?:```(?:json)?)?",
                re.DOTALL,
            ),
            written=(
                ("function<｜tool▁sep｜>{name}\n```json\n", "\n```<｜tool▁call▁end｜>"),
                ("{name}<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
            ),
            inner=("<｜tool▁sep｜>",),
        ),
    ),
    _known("minimax-m3", _M3, format=NestedCalls(_M3)),
    _known(
        "minimax-m2",
        "<minimax:tool_call>",
        format=_tags("", "invoke", "parameter", ("<minimax:tool_call>",), ("</minimax:tool_call>",)),
    ),
    _known(
        "hunyuan-3",
        "<arg_key:opensource>",
        format=_keyed(suffix=":opensource", separator=("<tool_sep:opensource>",), region="tool_calls"),
    ),
    _known("longcat", "<longcat_arg_key>", format=_keyed(prefix="longcat_")),
    _known(
        "hunyuan", "<arg_key>", "<tool_sep>", format=_keyed(separator=("<tool_sep>",), region="tool_calls")
    ),
    _known("glm", "<arg_key>", format=_keyed()),
    _known("seed", "<seed:tool_call>", format=_named(lines=False, region="seed:tool_call")),
    _known(
        "qwen3-coder",
        "<tool_call>",
        "<function=",
        "<parameter=",
        format=_named(lines=True, region="tool_call"),
    ),
    _known(
        "functionary-3.1",
        "<function=",
        "</function>",
        format=HeadedCalls(
            call="<function=", separators=(">",), ends=("</function>",), written=(("{name}>", "</function>"),)
        ),
    ),
    _known("minicpm", '<function name="', '<param name="', format=_tags("", "function", "param", (), ())),
    _known(
        "gemma-4",
        "<|tool_call>",
        "<tool_call|>",
        format=LooseCalls(
            ("<|tool_call>",), ("<tool_call|>",), "call:", "{", "}", ":", quote='<|"|>', listed=False
        ),
        dropped=("<channel|>",),
    ),
    _known(
        "function-gemma",
        "<start_function_call>",
        format=LooseCalls(
            ("<start_function_call>",),
            ("<end_function_call>",),
            "call:",
            "{",
            "}",
            ":",
            quote="<escape>",
            listed=False,
        ),
    ),
    _known(
        "lfm2",
        ("<|tool_call_start|>", "<|tool_list_start|>"),
        format=LooseCalls(("<|tool_call_start|>",), ("<|tool_call_end|>",)),
    ),
    _known(
        "mistral",
        "[TOOL_CALLS]",
        format=HeadedCalls(
            call="[TOOL_CALLS]",
            separators=("[ARGS]", "{"),
            ends=(),
            head=re.compile(r"(?P<name>[^\[\s]+)(?:\[CALL_ID\](?P<id>[a-zA-Z0-9]{9}))?", re.DOTALL),
            written=(("{name}[ARGS]", ""), ("{name}", "")),
            inner=("[CALL_ID]",),
            listed=_LISTED,
        ),
    ),
    _known(
        "command",
        "<|START_ACTION|>",
        format=JsonCalls(("<|START_ACTION|>",), ("<|END_ACTION|>",)),
        dropped=("<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    _known(
        "apertus",
        "<|tools_prefix|>",
        format=JsonCalls(("<|tools_prefix|>",), ("<|tools_suffix|>",), name_is_key=True),
    ),
    _known(
        "gigachat",
        ("<|function_call|>", "function call<|role_sep|>"),
        format=JsonCalls(
            ("<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>"),
        ),
        dropped=("<|message_sep|>",),
    ),
    _known(
        "tool-calls",
        "<tool_calls>",
        format=JsonCalls(("<tool_calls>",), ("</tool_calls>",)),
        dropped=("[END FINAL RESPONSE]",),
    ),
    _known("nemotron-2", "<TOOLCALL>", format=JsonCalls(("<TOOLCALL>",), ("</TOOLCALL>",))),
    _known(
        "granite-3",
        "<|tool_call|>",
        format=JsonCalls(("<|tool_call|>", "<tool_call>", "<function_call>"), ("<|/tool_call|>",)),
    ),
    _known(
        "solar",
        "<|tool_call:begin|>",
        format=HeadedCalls(
            call="<|tool_call:begin|>",
            separators=("<|tool_call:args|>",),
            ends=("<|tool_call:end|>",),
            head=re.compile(r"(?P<id>.*?)<\|tool_call:name\|>(?P<name>.+)", re.DOTALL),
            written=(("{id}<|tool_call:name|>{name}<|tool_call:args|>", "<|tool_call:end|>"),),
            inner=("<|tool_call:name|>",),
            section="<|tool_calls|>",
            section_ends=("<|calls|>",),
        ),
        dropped=("<|begin|>assistant", "<|content|>", "<|end|>"),
    ),
    _known("hermes", "<tool_call>", format=JsonCalls(("<tool_call>",), ("</tool_call>",))),
    Known(
        ((">>>all",),),
        Channels(
            "functionary-3.2",
            begins=(">>>",),
            message="\n",
            ends=(),
            route=functionary_route,
            format=JsonCalls(),
        ),
    ),
    _known(
        "llama-3",
        ("<|python_tag|>", '"parameters": dictionary of argument name and its value'),
        format=JsonCalls(("<|python_tag|>",), ("<|eom_id|>",), bare=True),
    ),
)
"""In the order in which they are tried: a family whose signs another one has too comes after it."""


def family_of(evidence: str) -> Known | None:
    """Return the family whose tool calls a template writes. ``evidence``: its source, a conversation as it renders it,
    and the added tokens of the vocabulary."""
    return next(
        (known for known in FAMILIES if all(any(s in evidence for s in group) for group in known.signs)), None
    )


def reading_of(evidence: str) -> Known:
    """Return how to read answers: the family, which may have no calls, with the reasoning that ``evidence`` shows."""
    known = family_of(evidence) or Known((), Family("plain"))
    pairs = tuple(pair for pair in THINKING if all(marker.strip() in evidence for marker in pair))
    if isinstance(known.family, Channels):
        return known
    return dataclasses.replace(known, family=dataclasses.replace(known.family, thinking=pairs))
