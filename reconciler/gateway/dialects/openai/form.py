"""The form of an answer as OpenAI, vLLM and llama.cpp ask for it. Pure."""

from __future__ import annotations

from typing import Any

import orjson

from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.forms import (
    ANY_OBJECT,
    ToolUse,
    choice_form,
    form_of,
    regex_form,
    schema_form,
)
from reconciler.gateway.dialects.known_parameters import refuse_unsupported_inside
from reconciler.gateway.errors import invalid, unsupported
from reconciler.wire.form import Form

_ASKING = frozenset(
    ["response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "json_schema"]
)
"""Fields that ask for a form."""
_FORMATS = ("text", "json_object", "json_schema", "structural_tag")


def parse_content_form(fields: Fields) -> Form | None:
    """Return the form of an answer's content; None if it is free. Raises ``ApiError`` (400)."""
    if fields.lacks(_ASKING):
        return None
    found = [form for form in (_response_format(fields), *_of_others(fields)) if form]
    if len(found) > 1:
        paths = " and ".join(form.schema_path for form in found)
        raise invalid(f"an answer can have one form, but {paths} both ask for one", found[1].schema_path)
    return found[0] if found else None


def _response_format(fields: Fields) -> Form | None:
    given = fields.object("response_format")
    if given is None:
        return None
    kind = given.choice("type", _FORMATS)
    if kind == "text":
        return None
    if kind == "structural_tag":
        raise unsupported(f"the response format {kind}", "response_format")
    if kind == "json_object":  # llama.cpp allows a schema here
        schema = given.value("schema")
        return _of_json(
            ANY_OBJECT if schema is None else schema, given.path("schema" if schema is not None else "type")
        )
    named = given.object("json_schema")
    if named is None:
        raise invalid("a response format of type json_schema needs a json_schema", given.path("json_schema"))
    if named.value("schema") is None:
        raise invalid("a json_schema needs a schema", named.path("schema"))
    return _of_json(named.value("schema"), named.path("schema"))


def _of_others(fields: Fields) -> list[Form | None]:
    """Return the forms that vLLM's fields and llama.cpp's ``json_schema`` ask for."""
    nested = fields.object("structured_outputs")
    if nested is not None:
        refuse_unsupported_inside(nested, "structured_outputs")
    inner = nested or Fields({}, "structured_outputs")
    found = []
    for place, prefix in ((fields, "guided_"), (inner, "")):
        for name, make in (("json", _of_json), ("regex", regex_form), ("choice", choice_form)):
            value = place.value(prefix + name)
            found.append(None if value is None else make(value, place.path(prefix + name)))
    if inner.flag("json_object"):
        found.append(_of_json(ANY_OBJECT, inner.path("json_object")))
    schema = fields.value("json_schema")
    found.append(None if schema is None else _of_json(schema, "json_schema"))
    return found


def _of_json(schema: Any, path: str) -> Form:
    """Return the form of a schema, which some clients send as text."""
    if isinstance(schema, str):
        try:
            schema = orjson.loads(schema)
        except orjson.JSONDecodeError as error:
            raise invalid(f"the schema is no JSON: {error}", path) from None
    return schema_form(schema, path)


def parse_tool_use(fields: Fields) -> ToolUse:
    """Return the use of tools that the request asks for. Raises ``ApiError`` (400)."""
    choice = fields.value("tool_choice")
    if choice in (None, "auto"):
        return ToolUse()
    if choice == "none":
        return ToolUse(offered=False)
    if choice == "required":
        return ToolUse(required=True)
    given = fields.object("tool_choice") if isinstance(choice, dict) else None
    if given is None:
        raise invalid('tool_choice must be "none", "auto", "required" or an object', "tool_choice")
    if given.choice("type", ("function", "allowed_tools")) == "function":
        return ToolUse(required=True, names=(_name(given),))
    allowed = given.object("allowed_tools")
    if allowed is None:
        raise invalid("a tool_choice of type allowed_tools needs allowed_tools", given.path("allowed_tools"))
    mode = allowed.choice("mode", ("auto", "required"))
    names = []
    for tool in allowed.objects("tools"):
        tool.choice("type", ("function",))
        names.append(_name(tool))
    if not names:
        raise invalid("allowed_tools needs at least one tool", allowed.path("tools"))
    return ToolUse(required=mode == "required", names=tuple(names))


def _name(fields: Fields) -> str:
    function = fields.object("function")
    if function is None:
        raise invalid("the choice of a function needs a function", fields.path("function"))
    return function.text("name")


def parse_form(fields: Fields, use: ToolUse) -> Form:
    """Return the form of an answer to a conversation. Raises ``ApiError`` (400)."""
    strict, known = [], []
    for tool in fields.objects("tools"):
        function = tool.object("function")
        if function is not None:
            known.append(function.text("name"))
            if function.flag("strict"):
                strict.append(known[-1])
    return form_of(parse_content_form(fields), use, strict, known)
