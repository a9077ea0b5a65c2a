"""From a browser's request to a chat completion of the gateway. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from reconciler.console.view.chat import SETTINGS

PASSED = ("messages", "temperature", "max_tokens", "thinking", "tools")
"""Fields that are passed on as they are: the gateway checks them."""


class WrongRequest(Exception):
    """The console cannot pass a browser's request on; the text says why."""


def completion(model: str, fields: Mapping[str, Any], stream: bool) -> dict[str, Any]:
    """Return the body of a chat completion. Raises ``WrongRequest``."""
    unknown = ", ".join(sorted(set(fields) - set(PASSED)))
    if unknown:
        raise WrongRequest(f"a chat has no {unknown}; it has {', '.join(PASSED)}")
    body = {name: fields[name] for name in PASSED if name in fields}
    body |= {"model": model, "stream": stream, "return_groups": True}
    return {**body, "stream_options": {"include_usage": True}} if stream else body


def from_json(body: bytes) -> Mapping[str, Any]:
    """Return the fields of a body of JSON. Raises ``WrongRequest``."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise WrongRequest(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise WrongRequest("the body must be a JSON object")
    return fields


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the page: the settings as they were typed, and the conversation with the new message."""

    typed: Mapping[str, str]
    """By the names of ``SETTINGS``; empty if not set."""
    messages: tuple[Mapping[str, Any], ...]
    """Without the system prompt. In addition to the gateway's fields, answers have ``groups``, which worked on them."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request. Raises ``WrongRequest``."""
        system = self.typed["system"].strip()
        first = ({"role": "system", "content": system},) if system else ()
        said = ({name: each[name] for name in each if name != "groups"} for each in self.messages)
        fields: dict[str, Any] = {"messages": [*first, *said]}
        for name in SETTINGS[1:]:
            if self.typed[name].strip():
                fields[name] = _value(name, self.typed[name])
        return fields


def from_form(body: bytes) -> Form:
    """Return a form that was sent as ``application/x-www-form-urlencoded``. Raises ``WrongRequest``."""
    try:
        sent = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=32)
        said = json.loads(sent.get("said", ["[]"])[0] or "[]")
    except ValueError as error:
        raise WrongRequest(f"the form cannot be read: {error}") from None
    if not isinstance(said, list) or not all(isinstance(each, dict) for each in said):
        raise WrongRequest("the conversation in the form is not a list of messages")
    typed = {name: sent.get(name, [""])[0] for name in SETTINGS}
    text = sent.get("message", [""])[0].strip()
    messages = [*said, {"role": "user", "content": text}] if text else said
    if not messages:
        raise WrongRequest("there is no message to answer")
    return Form(typed, tuple(messages))


def _value(name: str, text: str) -> Any:
    if name == "thinking":
        return text == "on"
    try:
        return json.loads(text)
    except ValueError:
        raise WrongRequest(f"{name} is not JSON: {text[:80]}") from None
