"""The stage between the dialects and a chat template: what the template does not take becomes what loses least of it.

Pure, and each message becomes the same whatever comes after it: a prompt begins like that of the turn before, so that it is
not read again. Only a message that another one of the same side follows directly may be joined with that.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.runner.markup.answer import Family

from . import tools as tool_shapes
from .calls import as_object, shape_ids, written
from .traits import REASONING_KEYS, Messages, Traits

UNKNOWN = "unknown_tool"
"""The name of a tool whose call is not there."""
FILLER = "..."
"""Stands for the turn of a side that has said nothing."""
REPLACED: Mapping[str, tuple[str, str, str]] = {
    "system-messages": (
        "system messages: several, later ones, any",
        "those at the beginning as one; later ones, and all where none are taken, as messages of the user at their place",
        "that the operator said it",
    ),
    "call-arguments": (
        "arguments of a call that are no JSON object",
        "an object: cut-off ones end where they were cut, others stand below `arguments`",
        "how the model wrote them",
    ),
    "parallel-calls": (
        "several calls in one message",
        "one call in each message, and its result after it",
        "that they were made together",
    ),
    "call-texts": (
        "text beside a call, or beside that and reasoning",
        "a message before it, or the end of the reasoning; nothing where neither is taken",
        "that it was one message; or the text",
    ),
    "calls": (
        "calls in the history",
        "text, in the model's own markup where that is known",
        "nothing, or their form",
    ),
    "results": (
        "a result that does not follow its call",
        "a message of the user, `[Result of NAME]` and the result",
        "that a tool said it",
    ),
    "turns": (
        "messages of one side in a row, a conversation that the model begins, a message without text",
        f"one message; `{FILLER}` for a side that said nothing",
        "where one message ended",
    ),
    "call-ids": ("ids of calls in the client's form", "ids in the form that is taken", "the client's ids"),
    "tool-schemas": (
        "parameters of tools with lists of types, booleans for schemas and the like",
        "schemas that say the same in simpler words; else JSON in the tool's description",
        "nothing, or their form",
    ),
    "strict-tools": (
        "schemas of `strict` tools that calls cannot be held to, where no call is required",
        "the same tool, and any arguments that the model writes",
        "that they satisfy the schema",
    ),
    "patterns": (
        "a `pattern` with look-around or references, beside a `format` that is enforced",
        "the format alone",
        "that the text matches the pattern too",
    ),
}
"""By the name in the answer's header: the part that is not taken, its replacement, and the loss."""


@dataclasses.dataclass(frozen=True)
class Shaped:
    """A conversation as the template takes it."""

    messages: Messages
    tools: Sequence[Mapping[str, Any]]
    replaced: Mapping[str, int]
    """Counts, by the names in ``REPLACED``."""


def shape(
    messages: Messages, tools: Sequence[Mapping[str, Any]], traits: Traits, family: Family, id_pattern: str
) -> Shaped:
    """Return a conversation as a template with these traits takes it. The messages may be changed in place."""
    stage = _Stage(traits, family)
    shaped = _named(messages)
    stage.replaced["call-ids"] += shape_ids(shaped, id_pattern, not traits.long_ids)
    for step in (stage.calls, stage.results, stage.systems, stage.turns):
        shaped = step(shaped)
    return Shaped(shaped, stage.tools(tools), {kind: n for kind, n in stage.replaced.items() if n})


def _named(messages: Messages) -> Messages:
    """Return messages in which each result has the name of the tool that was called: some templates write it."""
    names: dict[Any, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and not message.get("name"):
            message["name"] = names.get(message.get("tool_call_id"), UNKNOWN)
    return messages


class _Stage:
    """Shapes one conversation step by step, and counts what it replaces."""

    def __init__(self, traits: Traits, family: Family) -> None:
        self._traits = traits
        self._family = family
        self.replaced: Counter[str] = Counter()

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        shaped = [tool_shapes.complete(tool) for tool in tools]
        if not self._traits.undescribed_tools:
            shaped = [tool_shapes.described(tool) for tool in shaped]
        if not self._traits.any_schemas:
            simpler = tool_shapes.plain if self._traits.plain_schemas else tool_shapes.flat
            plain = [simpler(tool) for tool in shaped]
            self.replaced["tool-schemas"] += sum(a != b for a, b in zip(plain, shaped, strict=True))
            shaped = plain
        return shaped

    def calls(self, messages: Messages) -> Messages:
        """Return messages whose calls are taken."""
        made: Messages = []
        at = 0
        while at < len(messages):
            message = messages[at]
            at += 1
            if not message.get("tool_calls"):
                made.append(message)
                continue
            results: Messages = []
            while at < len(messages) and messages[at]["role"] == "tool":
                results.append(messages[at])
                at += 1
            made += self._called(message, results)
        return made

    def _called(self, message: dict[str, Any], results: Messages) -> Messages:
        """Return a message with calls, and the results after it."""
        for call in message["tool_calls"]:
            self._shape_arguments(call["function"])
        if not self._traits.calls:
            self.replaced["calls"] += len(message["tool_calls"])
            text = written(message.pop("tool_calls"), self._family)
            return [{**message, "content": "\n".join(filter(None, (message["content"], text)))}, *results]
        spoken = self._spoken(message)
        if len(message["tool_calls"]) == 1 or self._traits.parallel_calls:
            return [*spoken, *results]
        self.replaced["parallel-calls"] += len(message["tool_calls"])
        *before, last = spoken
        return [*before, *_one_by_one(last, results)]

    def _shape_arguments(self, function: dict[str, Any]) -> None:
        arguments = function["arguments"]
        if isinstance(arguments, str) and not self._traits.any_arguments:
            self.replaced["call-arguments"] += 1
            arguments = as_object(arguments)
        if self._traits.text_arguments and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        function["arguments"] = arguments

    def _spoken(self, message: dict[str, Any]) -> Messages:
        """Return a message with calls whose text and reasoning are taken."""
        thought = message.get(REASONING_KEYS[0])
        if thought:
            message = {**message, self._traits.reasoning: thought}
            if message["content"] and not self._traits.text_with_reasoning:
                self.replaced["call-texts"] += 1
                joined = _joined((thought, message["content"]))
                message = {**message, self._traits.reasoning: joined, "content": ""}
        if not message["content"] or self._traits.text_with_calls:
            return [message]
        self.replaced["call-texts"] += 1
        if not self._traits.text_before_calls:
            return [message]
        text = {"role": "assistant", "content": message["content"]}
        return [text, {**message, "content": ""}]

    def results(self, messages: Messages) -> Messages:
        """Return messages whose results are taken."""
        if self._traits.lone_results:
            return messages
        made: Messages = []
        awaited: Counter[Any] = Counter()
        for message in messages:
            if message["role"] != "tool":
                awaited = Counter(call["id"] for call in message.get("tool_calls") or ())
            elif awaited[message.get("tool_call_id")]:
                awaited[message["tool_call_id"]] -= 1
            else:
                awaited = Counter()
                self.replaced["results"] += 1
                text = f"[Result of {message['name']}]\n{message['content']}"
                message = {"role": "user", "content": text}
            made.append(message)
        return made

    def systems(self, messages: Messages) -> Messages:
        """Return messages whose system messages are taken."""
        traits = self._traits
        leading = next((i for i, each in enumerate(messages) if each["role"] != "system"), len(messages))
        first, rest = messages[:leading], messages[leading:]
        if not traits.later_systems:
            rest = [self._by_user(each) if each["role"] == "system" else each for each in rest]
        if len(first) > 1 and not traits.several_systems:
            self.replaced["system-messages"] += len(first) - 1
            first = [{"role": "system", "content": _joined(each["content"] for each in first)}]
        if not traits.first_system:
            first = [self._by_user(each) for each in first]
            if first and rest and rest[0]["role"] == "user":
                text = _joined(each["content"] for each in (*first, rest[0]))
                return [{**rest[0], "content": text}, *rest[1:]]
        return [*first, *rest]

    def _by_user(self, message: dict[str, Any]) -> dict[str, Any]:
        self.replaced["system-messages"] += 1
        return {"role": "user", "content": message["content"]}

    def turns(self, messages: Messages) -> Messages:
        """Return messages in an order that is taken."""
        start = next((i for i, each in enumerate(messages) if each["role"] != "system"), len(messages))
        first, rest = messages[:start], messages[start:]
        if not self._traits.any_turns:
            return [*first, *self._by_turns(rest)]
        rest = [self._said(each) for each in rest]
        if not self._traits.no_user and (not rest or rest[0]["role"] != "user"):
            self.replaced["turns"] += 1
            rest = [_filler("user"), *rest]
        return [*first, *rest]

    def _by_turns(self, messages: Messages) -> Messages:
        """Return messages in which the user and the model take turns; what the model says with a call is no turn."""
        made: list[Messages] = []  # each message with those that are joined with it
        spoke = "assistant"
        for message in map(self._said, messages or [_filler("user")]):
            role = message["role"]
            turns = _is_turn(message)
            if turns and made and _is_turn(made[-1][0]) and made[-1][0]["role"] == role:
                self.replaced["turns"] += 1
                made[-1].append(message)
                continue
            if (turns and spoke == role) or not (made or role == "user"):
                self.replaced["turns"] += 1
                spoke = "user" if spoke == "assistant" else "assistant"
                made.append([_filler(spoke)])
            made.append([message])
            spoke = role if turns else spoke
        return [each[0] if len(each) == 1 else _merged(each) for each in made]

    def _said(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message that says something, where it has to."""
        if message["role"] != "assistant" or message["content"] or message.get("tool_calls"):
            return message
        if self._traits.empty_turns:
            return message
        self.replaced["turns"] += 1
        return {**message, "content": FILLER}


def _filler(role: str) -> dict[str, Any]:
    return {"role": role, "content": FILLER}


def _is_turn(message: Mapping[str, Any]) -> bool:
    return message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls"))


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def _merged(messages: Messages) -> dict[str, Any]:
    """Return messages of one side, without calls, as one."""
    merged = {**messages[0], "content": _joined(each["content"] for each in messages)}
    thought = _joined(each.get(REASONING_KEYS[0]) or "" for each in messages)
    return {**merged, REASONING_KEYS[0]: thought} if thought else merged


def _one_by_one(message: dict[str, Any], results: Messages) -> Messages:
    """Return a message for each call, with its result after it, and at the end what is the result of none."""
    made: Messages = []
    left: dict[Any, deque[int]] = {}
    for at, result in enumerate(results):
        left.setdefault(result.get("tool_call_id"), deque()).append(at)
    taken = set()
    for index, call in enumerate(message["tool_calls"]):
        spoken = message if index == 0 else {"role": "assistant", "content": ""}
        made.append({**spoken, "tool_calls": [call]})
        if own := left.get(call["id"]):
            taken.add(own[0])
            made.append(results[own.popleft()])
    return [*made, *(each for at, each in enumerate(results) if at not in taken)]
