"""Finds out which conversations a model's chat template takes, by rendering short ones with it once."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.runner.model.adapter import FOREIGN_ERRORS, PROBE_TOOLS, NoTemplate, Tokenizer

Messages = list[dict[str, Any]]

NAME = str(PROBE_TOOLS[0]["function"]["name"])
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Names that templates use for the reasoning of an earlier turn."""
_SHORT_ID, _LONG_ID = 9 * "a", "call_" + 24 * "a"
_NO_OBJECTS = ('{"at": "cut', '["at"]', "null", "5", '"at"')


@dataclasses.dataclass(frozen=True)
class Traits:
    """The kinds of conversation that a template takes: it renders them and leaves nothing out."""

    first_system: bool = True
    """A system message at the beginning."""
    several_systems: bool = True
    """More than one there."""
    later_systems: bool = True
    """Some after other messages."""
    any_turns: bool = True
    """Several messages of one side in a row, and a conversation that the model begins."""
    no_user: bool = True
    """A conversation without a message of the user."""
    empty_turns: bool = True
    """A message of the model without text and calls."""
    calls: bool = True
    text_arguments: bool = False
    """Calls have their arguments as JSON text, and not as objects."""
    any_arguments: bool = True
    """Arguments that are no JSON object, as the model wrote them."""
    parallel_calls: bool = True
    """Several calls in one message."""
    text_with_calls: bool = True
    """Text next to calls in one message."""
    text_before_calls: bool = True
    """The same text as a message before that with the calls."""
    lone_results: bool = True
    """A result that does not follow its call."""
    long_ids: bool = True
    """Ids of calls in any form, not only nine letters and digits."""
    reasoning: str = REASONING_KEYS[0]
    """The name of the reasoning next to a call."""
    text_with_reasoning: bool = True
    """Reasoning and text next to a call."""
    undescribed_tools: bool = True
    any_schemas: bool = True
    """Parameters of tools as JSON Schema has them: booleans for schemas, lists of types."""
    plain_schemas: bool = True
    """Parameters of tools without these."""
    tools: str = ""
    """Why tools are not shown to the model; empty if they are."""


STRICTEST = Traits(
    first_system=False,
    several_systems=False,
    later_systems=False,
    any_turns=False,
    no_user=False,
    empty_turns=False,
    calls=False,
    lone_results=False,
    undescribed_tools=False,
    any_schemas=False,
    plain_schemas=False,
)
"""The traits of any template that takes alternating messages of user and model."""


def _user(text: str = "question") -> dict[str, Any]:
    return {"role": "user", "content": text}


def _model(text: str = "answer") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


class _Asking:
    """Renders conversations with one template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.text_arguments = False

    def refusal(self, messages: Messages, tools: Sequence[Mapping[str, Any]], *shown: str) -> str:
        """Return why it does not render the messages with what is ``shown``; empty if it does."""
        try:
            text = self._tokenizer.render(messages, tools)
        except NoTemplate as error:
            return str(error)
        except FOREIGN_ERRORS as error:
            said = " ".join(str(error).split()) or type(error).__name__
            return f"this model's chat template raises with tools: {said:.200}"
        if all(each in text for each in shown):
            return ""
        return "this model's chat template does not show tools to the model"

    def takes(
        self, messages: Messages, *shown: str, tools: Sequence[Mapping[str, Any]] = PROBE_TOOLS
    ) -> bool:
        """Return whether it renders the messages, and what is ``shown``."""
        return not self.refusal(messages, tools, *shown)

    def call(self, *arguments: Any, text: str = "", id: str = _SHORT_ID) -> dict[str, Any]:
        """Return a message with a call for each of ``arguments``."""
        pattern = self._tokenizer.known.id_pattern
        calls = []
        for index, each in enumerate(arguments):
            written = json.dumps(each) if self.text_arguments and isinstance(each, dict) else each
            number = pattern.format(name=NAME, index=index) if pattern else id[:-1] + str(index)
            function = {"name": NAME, "arguments": written}
            calls.append({"id": number, "type": "function", "function": function})
        return {"role": "assistant", "content": text, "tool_calls": calls}

    def result(self, text: str, index: int = 0, id: str = _SHORT_ID) -> dict[str, Any]:
        """Return the result of the call with this index."""
        pattern = self._tokenizer.known.id_pattern
        number = pattern.format(name=NAME, index=index) if pattern else id[:-1] + str(index)
        return {"role": "tool", "tool_call_id": number, "name": NAME, "content": text}


def ask(tokenizer: Tokenizer) -> Traits:
    asking = _Asking(tokenizer)
    found = {**_turns(asking), **_calls(asking), **_tools(asking)}
    return Traits(**{**found, "any_turns": found["any_turns"] and _goes_on(asking, found["calls"])})


def _turns(asking: _Asking) -> dict[str, bool]:
    """Return what it takes of messages without calls."""
    takes = functools.partial(asking.takes, tools=())
    first, second, user, model = _system("first-marker"), _system("second-marker"), _user(), _model()
    again = _user("again")
    marks = ("first-marker", "second-marker")
    takes_first = takes([first, user], "first-marker", "question")
    return {
        "first_system": takes_first,
        "several_systems": takes_first and takes([first, second, user], *marks, "question"),
        "later_systems": takes_first and takes([first, user, model, second, again], *marks, "again"),
        "any_turns": takes([user, again], "question", "again")
        and takes([user, model, _model("more"), again], "answer", "more", "again")
        and takes([model, user], "answer", "question"),
        "no_user": takes([model], "answer") and (not takes_first or takes([first], "first-marker")),
        "empty_turns": takes([user, _model(""), again], "question", "again"),
    }


def _calls(asking: _Asking) -> dict[str, Any]:
    """Return what it takes of calls and their results."""
    takes, call, result, user = asking.takes, asking.call, asking.result, _user()
    one, two = {"at": "one-marker"}, {"at": "two-marker"}
    marks = ("one-marker", "result-1")
    found: dict[str, Any] = {
        "lone_results": takes([user, _model(), result("result-1")], "answer", "result-1")
        and takes([result("result-1"), user], "result-1")
    }
    for asking.text_arguments in (False, True):
        if takes([user, call(one), result("result-1")], *marks):
            break
    else:
        return {**found, "calls": False}
    text, more = "text-marker", "more-marker"
    apart = [user, _model(text), call(one), result("result-1"), _model(more), call(two), result("result-2")]
    found |= {
        "calls": True,
        "text_arguments": asking.text_arguments,
        "any_arguments": all(takes([user, call(each), result("result-1")], each) for each in _NO_OBJECTS),
        "parallel_calls": takes(
            [user, call(one, two), result("result-1"), result("result-2", 1)],
            "one-marker",
            "two-marker",
            "result-2",
        ),
        "text_with_calls": takes([user, call(one, text=text), result("result-1")], text, *marks),
        "text_before_calls": takes([*apart, _model(), _user("again")], text, *marks, more, "two-marker"),
        "long_ids": takes([user, call(one, id=_LONG_ID), result("result-1", id=_LONG_ID)], *marks),
    }
    return found | _reasoning(asking, one)


def _goes_on(asking: _Asking, calls: bool) -> bool:
    """Return whether the user may speak after a call, and after its result."""
    user, call, result, again = _user(), asking.call({"at": "x"}), asking.result("result-1"), _user("again")
    talks = ([user, call, again], [user, call, result, again])
    return not calls or all(asking.takes(talk, "again") for talk in talks)


def _reasoning(asking: _Asking, arguments: dict[str, str]) -> dict[str, Any]:
    """Return how it is told the reasoning before a call."""
    user, result = _user(), asking.result("result-1")
    for key in REASONING_KEYS:
        if asking.takes([user, {**asking.call(arguments), key: "thought-marker"}, result], "thought-marker"):
            spoken = {**asking.call(arguments, text="text-marker"), key: "thought-marker"}
            both = asking.takes([user, spoken, result], "one-marker")
            return {"reasoning": key, "text_with_reasoning": both}
    return {}


def _tools(asking: _Asking) -> dict[str, Any]:
    """Return what it takes of tools."""
    user = _user()
    (tool,) = PROBE_TOOLS
    function = tool["function"]

    def takes(*functions: Mapping[str, Any]) -> bool:
        tools = [{"type": "function", "function": each} for each in functions]
        return all(asking.takes([user], tools=[each]) for each in tools)

    def having(schema: Any) -> Mapping[str, Any]:
        return {**function, "parameters": {"type": "object", "properties": {"at": schema}}}

    bare = {name: value for name, value in function.items() if name != "description"}
    strange = [
        {**function, "parameters": {"type": "object"}},
        {**function, "parameters": {"type": "object", "properties": None, "required": None}},
        having({"type": ["string", "null"]}),
        having({"type": "null"}),
        having({"type": "any"}),
        having(True),
        having({"type": "string", "description": None}),
        having({"type": "array", "items": True}),
        having({"type": "array", "items": [{"type": "string"}]}),
    ]
    return {
        "undescribed_tools": takes(bare),
        "any_schemas": takes(*strange),
        "tools": asking.refusal([user], PROBE_TOOLS, NAME),
    }
