# ruff: noqa: B023 - each function is called where it is written
"""What becomes of many conversations, tools and requests before a model sees them, line by line.

``UPDATE_GOLDEN=1 pytest tests/runner/requests/test_recorded_shapes.py`` writes the files again. A line has the input's name,
and the shaped form's beginning with a digest of all of it, or the refusal. A line that differs is another form of the
same input.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from reconciler.runner.markup.answer import Family
from reconciler.runner.markup.families import FAMILIES, Known
from reconciler.runner.model.adapter import NoTemplate, Tokenizer
from reconciler.runner.requests import conversation, prompt, tools, traits
from reconciler.runner.requests.calls import as_object, shape_ids, short_id, written
from reconciler.runner.requests.event_frames import event_frame
from reconciler.runner.requests.shaping import shape
from reconciler.runner.requests.texts import TextReader
from reconciler.runner.requests.traits import STRICTEST, Traits
from reconciler.runner.requests.unanswerable import Unanswerable
from reconciler.wire.form import Form
from reconciler.wire.generation import CallPart, Delta, Finished, Likely, TokenLogprobs
from reconciler.wire.question import Question, Texts
from reconciler.wire.sampling import Bias, Ending, Sampling
from tests.recorded import compare, digest
from tests.runner.lines import RECORDED, Lines, compact
from tests.runner.ranks import question

PLAIN = Family("plain")
FLAGS = [field.name for field in dataclasses.fields(Traits) if field.type == "bool"]


def call(name: str, arguments: Any = "{}", id: str = "") -> dict[str, Any]:
    return {"id": id or f"id-{name}", "type": "function", "function": {"name": name, "arguments": arguments}}


def model(text: str = "", *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}


def user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str = "be brief") -> dict[str, Any]:
    return {"role": "system", "content": text}


def result(of: str, text: str = "done", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"id-{of}", "content": text, **more}


TALKS: Mapping[str, list[dict[str, Any]]] = {
    "nothing": [],
    "user": [user()],
    "system": [system()],
    "systems": [system("a"), system("b"), user(), model("yes"), system("c"), user("more")],
    "empty systems": [system(""), system("b"), model("x"), system("")],
    "turns": [user("a"), user("b"), model("c"), model("d", reasoning_content="r"), model("e", reasoning_content="s"), user("")],
    "model begins": [model("a"), user("b")],
    "model ends": [user("a"), model("")],
    "empty turns": [user("a"), model(""), model(""), user("b"), model("", reasoning_content="x"), user("c")],
    "one call": [user(), model("", call("a")), result("a"), model("so")],
    "call with text": [user(), model("I look.", call("a", {"x": "\u00e9"})), result("a"), user()],
    "call with reasoning": [user(), model("", call("a"), reasoning_content="hm"), result("a")],
    "call with both": [user(), model("t", call("a"), call("b"), reasoning_content="hm"), result("b"), result("a"), user()],
    "parallel": [user(), model("t", call("a"), call("b"), call("c")), result("b"), result("a"), result("z"), user()],
    "twins": [user(), model("", call("a", "{}", "x"), call("b", "{}", "x")), {"role": "tool", "tool_call_id": "x", "content": "1"}, {"role": "tool", "tool_call_id": "x", "content": "2"}, {"role": "tool", "tool_call_id": "x", "content": "3"}],
    "cut arguments": [user(), model("", call("a", '{"x": [1, "y'), call("b", "5"), call("c", ""), call("d", {"k": 1})), result("a")],
    "result alone": [user(), result("a"), model("x"), result("b", name="named")],
    "result after user": [user(), model("", call("a")), user("stop"), result("a"), model("", call("b")), model("x"), result("b")],
    "result without id": [user(), model("", call("a")), {"role": "tool", "content": "x"}, result("a")],
    "calls in a row": [model("", call("a")), result("a"), model("", call("b")), result("b"), model("z"), model("w", call("c"))],
    "same call again": [user(), model("", call("a")), result("a"), model("", call("a")), result("a"), result("a")],
}  # fmt: skip
TOOLS: Sequence[Any] = (
    {"type": "function", "function": {"name": "a"}},
    {"type": "function", "function": {"name": "b", "description": "d", "parameters": {"type": ["object", "null"], "properties": {"x": True}}}},
)  # fmt: skip


def without(*names: str) -> Traits:
    """Traits of which some are the other way round than usual."""
    changed: dict[str, Any] = {name: not getattr(Traits(), name) for name in names}
    return dataclasses.replace(Traits(), **changed)


def traits_tried() -> Sequence[tuple[str, Traits]]:
    default = Traits()
    one = [(name, without(name)) for name in FLAGS]
    two = [(f"{a} +", without(a, b)) for a, b in zip(FLAGS, FLAGS[1:] + FLAGS[:1], strict=True)]
    others = (
        ("all", default),
        ("strictest", STRICTEST),
        ("thinking", dataclasses.replace(default, reasoning="thinking", text_with_calls=False)),
        ("no text", dataclasses.replace(default, text_with_calls=False, text_before_calls=False, text_with_reasoning=False)),
        ("text", dataclasses.replace(default, text_arguments=True, any_arguments=False, any_turns=False)),
    )  # fmt: skip
    return (*one, *two, *others)


def told(ask: Callable[[], object], *refusals: type[Exception]) -> object:
    """An answer, or its refusal with the fields that a client sees."""
    try:
        return ask()
    except Unanswerable as error:
        failed = error.failed("r")
        return f"REFUSED {failed.code} {failed.parameter}: {failed.text}"
    except refusals as error:
        return f"{type(error).__name__}: {error}"


def test_conversations_are_shaped_as_recorded() -> None:
    lines = Lines()
    for talk, messages in TALKS.items():
        for name, tried in traits_tried():
            shaped = shape(copy.deepcopy(messages), TOOLS, tried, PLAIN, "")
            roles = "".join(
                message["role"][0] + str(len(message["tool_calls"])) if message.get("tool_calls") else message["role"][0]
                for message in shaped.messages
            )  # fmt: skip
            whole = digest([json.dumps(shaped.messages), json.dumps(shaped.tools)])
            lines.put(f"{talk}, {name}: {roles} {compact(shaped.replaced)} {whole}")
    compare(RECORDED / "requests_shaped.txt", lines)


IDS = ("functions.{name}:{index}", "{index}", "x{index}y", "")
OLD = (
    "functions.a:0",
    "functions.a:x",
    "functions.a:",
    "abcdefghi",
    "abcdefgh",
    "call_1",
    "x7y",
    "",
    "\u00e9",
    "functions.b:1",
)
WHOLE = '{"path": "a\\"\\\\\\n{\\u00e9", "n": [1, {"b": null, "c": true}], "z": -1.5, "": "e"}'
CUT = ("", " ", "null", "[1]", "5", '"x"', "{", "{}", '{"a', '{"a"', '{"a":', '{"a": ', '{"a": t', '{"a": "\\', '{"a": "\\u00', '{"a": "\\\\', '{"a": 1,', '{"a": [', '{"a": [1,', '{"a": [1, tr', '{"a": 1}}', '{"a": 1]', '[{"a": 1', "x{", '{"a": "b\nc', '{"a": nul', '{"a": {"b": 1, "c', '{"a": 1 2', '{"a": ]', " {", '{"a": "}', '{"a": "\\"')  # fmt: skip


def test_ids_arguments_and_calls_are_written_as_recorded() -> None:
    lines = Lines()
    for id in OLD:
        lines.add(f"short {id!a}", short_id(id))
    for pattern in IDS:
        for short in (False, True):
            messages: list[dict[str, Any]] = [model("", call("a", id=id), call("b", id=id)) for id in OLD]
            messages += [{"role": "tool", "tool_call_id": id} for id in (*OLD, "other")]
            messages += [{"role": "assistant", "tool_calls": [{"id": 5, "function": "x"}, {"function": {}}]}]
            count = shape_ids(messages, pattern, short)
            ids = [[each["id"] for each in message["tool_calls"]] if "tool_calls" in message else message["tool_call_id"] for message in messages]  # fmt: skip
            lines.add(f"ids {pattern} {short}", [count, *ids], 400)
    for text in CUT:
        lines.add(f"cut {text!a}", as_object(text))
    lines.add("cut anywhere", digest([as_object(WHOLE[:at]) for at in range(len(WHOLE))]))
    for levels in (63, 64, 65):
        lines.add(f"cut {levels} levels", digest(as_object('{"a": ' + "[" * (levels - 1))))
    for known in FAMILIES:
        for calls in (
            [call("a")],
            [call("a", {"x": [1, None, "\u00e9"]}, "f:7"), call("b", '{"y": 1', "plain")],
        ):
            lines.add(f"{known.family.name}, {len(calls)}", written(calls, known.family))
    lines.add("plain", written([call("a", {"x": 1})], PLAIN))
    compare(RECORDED / "requests_written.txt", lines)


SCHEMAS: Sequence[Any] = (
    None, True, False, 5, "x", [], {}, {"type": "object"}, {"type": "null"}, {"type": "any"}, {"type": 5}, {"type": None}, {"type": []},
    {"type": ["string", "null"]}, {"type": ["null"]}, {"type": ["string"]}, {"type": ["string", "integer"]}, {"type": ["string", "integer", "null"], "anyOf": [{}]},
    {"type": "null", "enum": ["x"]}, {"type": "string", "default": None, "const": None, "title": None},
    {"additionalProperties": {"type": ["string", "null"]}}, {"additionalProperties": False}, {"additionalProperties": None},
    {"items": True}, {"items": False}, {"items": [{"type": "null"}, True]}, {"items": []}, {"items": None}, {"items": {"type": "null"}},
    *({name: {"type": ["string", "null"]}} for name in ("not", "if", "then", "else", "contains", "propertyNames")), {"not": True},
    *({name: [True, {"type": "null"}]} for name in ("anyOf", "oneOf", "allOf", "prefixItems")), {"anyOf": 5}, {"anyOf": None},
    *({name: {"x": True, "y": {"type": "null"}}} for name in ("properties", "patternProperties", "$defs", "definitions")), {"properties": 5},
    {"properties": {"a": {"type": "integer"}, "b": {"type": "odd"}, "c": True, "d": {"type": ["array"]}}, "required": ["a"]},
)  # fmt: skip


def test_tools_are_shaped_as_recorded() -> None:
    lines = Lines()
    for number, schema in enumerate(SCHEMAS):
        whole = {"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}
        lines.add(f"{number} {schema}", tools.plain(whole)["function"]["parameters"])
        lines.add(f"{number} flat", tools.flat(whole)["function"])
    functions: Sequence[Any] = (
        {"name": "f"}, {"name": "f", "parameters": None}, {"name": "f", "parameters": {}}, {"name": "f", "description": None, "strict": None},
        {"name": "f", "description": ""}, {"name": "f", "description": 5, "parameters": {}}, {"name": None, "strict": True},
    )  # fmt: skip
    for function in functions:
        tool: dict[str, Any] = {"type": "function", "function": function, "more": 1}
        lines.add(
            f"{function}",
            [tools.complete(tool), tools.described(tool), tools.flat(tools.complete(tool))],
            300,
        )
    compare(RECORDED / "requests_tools.txt", lines)


NO_CALLS: Sequence[Any] = (
    None, [], {}, "x", [5], [{}], [{"id": 1}], [{"id": "a", "function": 5}], [{"id": "a", "function": {}}],
    [{"id": "a", "function": {"name": 5}}], [{"function": {"name": "f"}}],
)  # fmt: skip
MESSAGES: Sequence[Any] = (
    5, {}, {"role": 5}, {"role": "user"}, {"role": "user", "content": None}, {"role": "user", "content": 5}, {"role": "user", "content": []},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}, {"role": "user", "content": [{"text": "a"}, "b"]},
    {"role": "user", "content": [{"text": 5}]}, {"role": "user", "content": [{"type": "image"}]}, {"role": "user", "content": {"text": "a"}},
    *({"role": "assistant", "tool_calls": calls} for calls in NO_CALLS),
    *(model("", call("f", arguments)) for arguments in (None, "", "{}", '{"a": 1}', "[1]", "5", "null", "{", {"a": 1}, [1], 5, True)),
    {"role": "tool", "content": "x", "tool_call_id": "y"}, {"role": "user", "content": "\ud83d"},
)  # fmt: skip


class Rendering:
    """A template that takes what its test lets it."""

    def __init__(self, render: Callable[..., str], known: Known = FAMILIES[-2], name: str = "") -> None:
        self.known = known
        self.name = name
        self._render = render

    def render(self, messages: Any, tools: Any, variables: Any = None, generation_prompt: bool = True) -> str:
        return self._render(messages, tools, variables, generation_prompt)


def everything(messages: Any, tools: Any, variables: Any = None, generation_prompt: bool = True) -> str:
    said = [f"{key}={value}" for message in messages for key, value in message.items()]
    return "\n".join([*said, *map(str, tools), str(variables), str(generation_prompt)])


def rejecting(wrong: Callable[[Any, Any], bool], error: Exception) -> Callable[..., str]:
    """Render all but what is wrong, for which it raises."""

    def render(messages: Any, tools: Any, *more: Any) -> str:
        if wrong(messages, tools):
            raise error
        return everything(messages, tools, *more)

    return render


def leaving_out(wrong: Callable[[Any], bool]) -> Callable[..., str]:
    """Render the messages that are not wrong."""
    return lambda messages, tools, *more: everything(
        [each for each in messages if not wrong(each)], tools, *more
    )


def roles(messages: Any) -> str:
    return "".join(message["role"][0] for message in messages)


BAD = ValueError("this \n template\traises")
TEMPLATES: Mapping[str, Callable[..., str]] = {
    "all": everything,
    "none": rejecting(lambda messages, tools: True, BAD),
    "without a message": rejecting(lambda messages, tools: True, TypeError()),
    "no template": rejecting(lambda messages, tools: True, NoTemplate("there is none")),
    "broken": rejecting(lambda messages, tools: bool(tools), jinja2.TemplateError("x" * 300)),
    "no tools": rejecting(lambda messages, tools: bool(tools), BAD),
    "silent on tools": lambda messages, tools, *more: everything(messages, (), *more),
    "no systems": rejecting(lambda messages, tools: "s" in roles(messages), BAD),
    "silent systems": leaving_out(lambda message: message["role"] == "system"),
    "one system": rejecting(lambda messages, tools: "ss" in roles(messages), BAD),
    "early systems": rejecting(lambda messages, tools: "as" in roles(messages), BAD),
    "no users in a row": rejecting(lambda messages, tools: "uu" in roles(messages), BAD),
    "no answers in a row": rejecting(lambda messages, tools: "aa" in roles(messages), BAD),
    "the user begins": rejecting(lambda messages, tools: not roles(messages).startswith(("u", "s")), BAD),
    "a user": rejecting(lambda messages, tools: "u" not in roles(messages), BAD),
    "no empty": rejecting(lambda messages, tools: any(not each["content"] and not each.get("tool_calls") for each in messages), BAD),
    "no calls": rejecting(lambda messages, tools: any(each.get("tool_calls") for each in messages), BAD),
    "silent calls": leaving_out(lambda message: bool(message.get("tool_calls"))),
    "text arguments": rejecting(lambda messages, tools: any(isinstance(one["function"]["arguments"], dict) for each in messages for one in each.get("tool_calls", ())), BAD),
    "objects": rejecting(lambda messages, tools: any(isinstance(one["function"]["arguments"], str) for each in messages for one in each.get("tool_calls", ())), BAD),
    "no lists": rejecting(lambda messages, tools: any(one["function"]["arguments"] == '["at"]' for each in messages for one in each.get("tool_calls", ())), BAD),
    "one call": rejecting(lambda messages, tools: any(len(each.get("tool_calls", ())) > 1 for each in messages), BAD),
    "no text by calls": rejecting(lambda messages, tools: any(each.get("tool_calls") and each["content"] for each in messages), BAD),
    "silent text by calls": lambda messages, tools, *more: everything([{**each, "content": ""} if each.get("tool_calls") else each for each in messages], tools, *more),
    "no text before calls": rejecting(lambda messages, tools: "aa" in roles(messages) or any(each.get("tool_calls") and each["content"] for each in messages), BAD),
    "no lone results": rejecting(lambda messages, tools: "at" in roles(messages) and not any(each.get("tool_calls") for each in messages), BAD),
    "no first results": rejecting(lambda messages, tools: roles(messages).startswith("t"), BAD),
    "short ids": rejecting(lambda messages, tools: any(len(one["id"]) != 9 for each in messages for one in each.get("tool_calls", ())), BAD),
    "thinking": lambda messages, tools, *more: everything([{key: value for key, value in each.items() if key not in ("reasoning", "reasoning_content")} for each in messages], tools, *more),
    "reasoning": rejecting(lambda messages, tools: any(each.get("reasoning") and each["content"] for each in messages) or any("reasoning_content" in each for each in messages), BAD),
    "silent reasoning": lambda messages, tools, *more: everything([{key: value for key, value in each.items() if key not in traits.REASONING_KEYS} for each in messages], tools, *more),
    "user after a call": rejecting(lambda messages, tools: "au" in roles(messages) and any(each.get("tool_calls") for each in messages), BAD),
    "user after a result": rejecting(lambda messages, tools: "tu" in roles(messages), BAD),
    "described": rejecting(lambda messages, tools: any("description" not in each["function"] for each in tools), BAD),
    "simple schemas": rejecting(lambda messages, tools: any(isinstance(one, bool) or isinstance(one.get("type"), list) for each in tools for one in (each["function"]["parameters"].get("properties") or {}).values()), BAD),
    "nulls": rejecting(lambda messages, tools: "None" in str(tools), BAD),
}  # fmt: skip


def test_templates_are_understood_and_used_as_recorded() -> None:
    lines = Lines()
    by_name = {known.family.name: known for known in FAMILIES}
    default = Traits()
    for name, template in TEMPLATES.items():
        for known in (by_name["hermes"], by_name["kimi-k2"]):
            tokenizer: Any = Rendering(template, known)
            found = traits.ask(tokenizer)
            changed = {
                key: value
                for key, value in dataclasses.asdict(found).items()
                if getattr(default, key) != value
            }
            lines.add(f"{name}, {known.family.name}", changed, 400)
        for talk in ("systems", "call with both", "cut arguments"):
            for given in ((), TOOLS):
                rendered = told(
                    lambda: conversation.render(TALKS[talk], given, tokenizer, {"v": 1}, False), Exception
                )
                shown = (
                    [rendered.replaced, digest(rendered.text)]
                    if isinstance(rendered, conversation.Rendered)
                    else rendered
                )
                lines.add(f"{name}, {talk}, {len(given)}", shown, 40)
    whole: Any = Rendering(everything)
    for message in MESSAGES:
        lines.add(f"{message}", told(lambda: conversation.render([message], (), whole).text))
    compare(RECORDED / "requests_templates.txt", lines)


CONTEXT = 64
NUMBERS = (-3.0, -2.0, -0.1, 0.0, 0.01, 0.009, 1.0, 1.001, 2.0, 2.1, 100.0, 100.1, math.inf, math.nan)
REQUESTS: Sequence[Mapping[str, Any]] = (
    {}, {"tokens_max": 0}, {"tokens_max": 1}, {"tokens_max": 10**6}, {"tokens_max": 0, "scores": 0}, {"tokens_max": -1, "scores": 0}, {"tokens_max": 0, "scores": 0, "resume": (20,)},
    *({"resume": (20,) * count, "tokens_max": 3} for count in (1, 2, 3, 4)), {"resume": (0,)}, {"resume": (304,)}, {"resume": (20, 0, 21)},
    {"prompt_tokens": (5, 6)}, {"prompt_tokens": (5, 6), "echo": True}, {"prompt_tokens": ()}, {"prompt_tokens": (304,)}, {"prompt_tokens": (303, -1)}, {"prompt_tokens": (5,), "scores": 2, "tokens_max": 0},
    *({"prompt_tokens": (5,) * count} for count in (CONTEXT - 2, CONTEXT - 1, CONTEXT, CONTEXT + 1)),
    {"prompt": "so"}, {"prompt": "so", "echo": True}, {"prompt": ""}, {"prompt": "\ud800"}, *({"prompt": "x" * count} for count in (63, 64, 512, 513, 520, 521, 600)),
    *({"logprobs": count} for count in (-1, 0, 20, 21)), *({"scores": count} for count in (-1, 0, 20, 21)),
    *({"stop": stop} for stop in ((), ("a",), ("",), ("a" * 4096,), ("a" * 4097,), ("a",) * 64, ("a",) * 65, ("a", ""))),
    *({"ending": Ending(stop_tokens=stop)} for stop in ((0, 303), (304,), (-1,))), *({"sampling": Sampling(biases=(Bias(1, 1.0), Bias(token, by)))} for token, by in ((0, 1.0), (303, -1e9), (304, 1.0), (-1, 1.0), (5, math.nan), (5, math.inf))),
    *({"sampling": Sampling(top_k=count)} for count in (-1, 0, 1)),
    {"form": Form(schema="{}")}, {"form": Form(schema="{}"), "stop": ("a",)}, {"form": Form(schema="{}"), "ending": Ending(ignore_end=True)}, {"form": Form(schema="{}"), "ending": Ending(tokens_min=1)},
    {"form": Form(schema="{}"), "ending": Ending(stop_tokens=(5,))}, {"form": Form(calls_required=True)}, {"form": Form(strict=("a",))}, {"form": Form(calls_required=True), "tools": TOOLS}, {"form": Form(regex="a"), "tool_calls_max": 1, "prompt": "x"},
    {"form": Form(schema="{}"), "resume": (0,)}, {"tools": TOOLS}, {"tools": TOOLS, "tool_calls_max": 1}, {"template": {"messages": 1}}, {"template": {"enable_thinking": True}}, {"messages": ()}, {"messages": ({"role": 5},), "tools": TOOLS},
    {"messages": (user("a" * 30), system("x" * 10))}, {"messages": (user("a" * 80),)}, {"messages": (user("a" * 3000),)}, {"echo": True}, {"messages": (user(), model("", call("a", "{")), result("a"))},
    *({"question": asked, **more} for asked in (Question(), Question(called="input"), Question(tokens=True), Question(token_texts=True), Question(special_tokens=False), Question(special_tokens=True), Question(generation_prompt=False)) for more in ({}, {"prompt": "abc"}, {"prompt": "", "echo": True}, {"prompt_tokens": (5,) * 255}, {"prompt_tokens": (5,) * 257})),
)  # fmt: skip


def shown_prompt(found: prompt.Prompt) -> object:
    names = ("tokens_max", "last", "text", "token_texts", "texts", "asked", "scored", "replaced")
    return [digest(found.tokens), *(getattr(found, name) for name in names)]


def test_requests_are_read_as_recorded(endless_tokenizer: Tokenizer) -> None:
    lines = Lines()
    for number, fields in enumerate(REQUESTS):
        generate = question("r", "hi", **fields)
        name = f"{number} {sorted(fields)}"
        lines.add(
            name, told(lambda: shown_prompt(prompt.read_prompt(generate, endless_tokenizer, 304, CONTEXT)))
        )
        lines.add(f"{number} length", told(lambda: prompt.check_length(generate, endless_tokenizer, CONTEXT)))
    for field in (
        "temperature",
        "top_p",
        "min_p",
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
    ):
        for value in NUMBERS:
            changed: dict[str, Any] = {field: value}
            generate = question("r", "hi", sampling=Sampling(**changed))
            found = told(lambda: prompt.read_prompt(generate, endless_tokenizer, 304, CONTEXT).tokens_max)
            lines.add(f"{field} {value}", found)
    most = CONTEXT * endless_tokenizer.token_bytes_max
    for length in (most - 4, most - 3, most):
        generate = question("r", "x" * length)
        lines.add(f"{length} bytes", told(lambda: prompt.check_length(generate, endless_tokenizer, CONTEXT)))
    compare(RECORDED / "requests_read.txt", lines)


ASKED: Sequence[Texts] = (
    Texts(), Texts(("a",)), Texts(("a", "")), Texts(("",)), Texts(("\ud800",)), Texts(("a", "\ud800")), Texts(tokens=((5, 6),)), Texts(tokens=((),)), Texts(tokens=((5,), (304,))),
    Texts(tokens=((-1,),)), Texts(("a",), ((5,),)), Texts(("a",) * 4096), Texts(("a",) * 4097), *(Texts(("a",), dimensions=count) for count in (0, 1, 8, 9)),
    *(Texts(("x" * count,)) for count in (63, 64, 65, 512, 513, 2000)), *(Texts(("a", "x" * count)) for count in (513, 2000)), Texts(tokens=((5,) * 64,)), Texts(tokens=((5,) * 65, (5,))),
)  # fmt: skip


def test_texts_for_vectors_are_read_as_recorded(endless_tokenizer: Tokenizer) -> None:
    lines = Lines()
    for end in (None, 0):
        reader = TextReader(endless_tokenizer, 304, CONTEXT, 8, end)
        for number, texts in enumerate(ASKED):
            generate = question(
                "r", "", messages=(), tokens_max=0, question=Question(called="input", texts=texts)
            )
            lines.add(f"{end} {number} length", told(lambda: reader.length(generate)))
            if len(texts.texts) < 10:
                lines.add(
                    f"{end} {number}", told(lambda: [len(each) for each in reader.read(generate).texts])
                )
    compare(RECORDED / "requests_texts.txt", lines)


def test_events_are_framed_as_recorded() -> None:
    likely = TokenLogprobs(Likely(5, "a", -0.5, (97,)), (Likely(6, "b", -1.0),))
    events: Sequence[Any] = (
        Delta("r", ()), Delta("r\u00e9", (5, 6), "a\"\n\u00e9"), Delta("r", (5,), "", "hm"), Delta("r", (5,), "a", "b"),
        Delta("r", (5,), "a", calls=(CallPart(0, "f", "i", "{"),)), Delta("r", (5,), logprobs=(likely,)), Finished("r", "stop", 1, 2, stop="x"),
    )  # fmt: skip
    lines = Lines()
    for number, event in enumerate(events):
        lines.add(str(number), event_frame(event).decode("utf-8", "backslashreplace"), 300)
    compare(RECORDED / "requests_frames.txt", lines)
