"""What the served model takes out of what a published schema allows: text, functions, and no more than it can say."""

TEXT = {"type": "string", "maxLength": 60}
SOME = {"type": "string", "minLength": 1, "maxLength": 60}
MODEL = {"type": "string", "enum": ["tiny"]}
NAME = {"type": "string", "pattern": "^[a-z]{1,8}$"}
NAMES = [{"type": "string", "pattern": f"^{letter}[a-z]{{0,7}}$"} for letter in "ab"]
"""Of tools, which must have different ones."""
COUNT = {"type": "integer", "minimum": 16, "maximum": 24}
TOKEN = {"enum": list(range(3, 1000, 7))}
TRUTH = {"type": "boolean"}
PARAMETERS = {
    "type": "object",
    "properties": {
        "type": {"const": "object"},
        "properties": {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z]{1,6}$"},
            "additionalProperties": {
                "type": "object",
                "properties": {"type": {"enum": ["string", "integer", "boolean"]}},
                "required": ["type"],
                "additionalProperties": False,
            },
            "maxProperties": 3,
        },
    },
    "required": ["type", "properties"],
    "additionalProperties": False,
}


def record(required, **optional):
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def const(value):
    """One value."""
    return {"const": value}


def listed(items, most, least=0):
    """A short list."""
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def placed(*items, least=1):
    """A list with these items at their places, of which the last ones may be left out."""
    return {
        "type": "array",
        "prefixItems": list(items),
        "minItems": least,
        "maxItems": len(items),
        "items": False,
    }


def _message(role, content=TEXT, **more):
    return record({"role": const(role), "content": content}, **more)


_PARTS = {"anyOf": [TEXT, listed(record({"type": const("text"), "text": TEXT}), 3, 1)]}
CHAT = {
    "model": MODEL,
    "messages": {
        "type": "array",
        "minItems": 1,
        "maxItems": 5,
        "items": {
            "anyOf": [
                _message("system", _PARTS),
                _message("developer", _PARTS),
                _message("user", _PARTS, name=NAME),
                _message("assistant"),
            ]
        },
    },
    "max_tokens": COUNT,
    "max_completion_tokens": COUNT,
    "n": {"type": "integer", "minimum": 1, "maximum": 3},
    "logit_bias": {
        "type": "object",
        "propertyNames": {"pattern": "^[1-9][0-9]{0,2}$"},
        "additionalProperties": {"type": "integer", "minimum": -100, "maximum": 100},
        "maxProperties": 4,
    },
    "stop": {"anyOf": [SOME, listed(SOME, 4, 1)]},
    "seed": {"type": "integer", "minimum": -(2**62), "maximum": 2**62},
    "tools": placed(
        *(
            record(
                {
                    "type": const("function"),
                    "function": record({"name": name}, description=TEXT, parameters=PARAMETERS),
                }
            )
            for name in NAMES
        )
    ),
    "tool_choice": {"enum": ["none", "auto"]},
    "response_format": record({"type": {"enum": ["text", "json_object"]}}),
    "stream_options": record({}, include_usage=TRUTH, include_obfuscation=TRUTH),
    "stream": TRUTH,
}
COMPLETIONS = {
    "model": MODEL,
    "prompt": {
        "anyOf": [
            SOME,
            listed(SOME, 3, 1),
            listed(TOKEN, 8, 1),
            listed(listed(TOKEN, 8, 1), 3, 1),
        ]
    },
    **{
        name: CHAT[name]
        for name in ("max_tokens", "n", "logit_bias", "stop", "seed", "stream_options", "stream")
    },
}
_FUNCTIONS = [
    record(
        {"type": const("function"), "name": name, "parameters": PARAMETERS, "strict": const(False)},
        description=TEXT,
    )
    for name in NAMES
]
_INPUT_PARTS = listed(record({"type": const("input_text"), "text": TEXT}), 3, 1)
_CALLED = [
    record(
        {"type": const("function_call"), "call_id": const("call_1"), "name": NAME, "arguments": const("{}")}
    ),
    record({"type": const("function_call_output"), "call_id": const("call_1"), "output": TEXT}),
]
RESPONSES = {
    "model": MODEL,
    "input": {
        "anyOf": [
            SOME,
            listed(
                {
                    "anyOf": [
                        record({"role": {"enum": ["user", "system", "developer"]}, "content": _INPUT_PARTS}),
                        record({"role": {"enum": ["user", "assistant"]}, "content": TEXT}),
                    ]
                },
                4,
                1,
            ),
            placed(record({"role": const("user"), "content": TEXT}), *_CALLED, least=3),
        ]
    },
    "max_output_tokens": COUNT,
    "tools": placed(*_FUNCTIONS),
    "tool_choice": {"enum": ["none", "auto"]},
    "text": record({}, format=record({"type": {"enum": ["text", "json_object"]}})),
    "reasoning": record({}, effort={"enum": ["low", "medium", "high"]}),
    "include": listed(const("reasoning.encrypted_content"), 1),
    "truncation": {"enum": ["auto", "disabled"]},
    "stream": TRUTH,
    "store": TRUTH,
    "stream_options": record({}, include_obfuscation=TRUTH),
}
_ASKED = {
    "anyOf": [
        _message("user", SOME),
        _message("user", listed(record({"type": const("text"), "text": SOME}), 3, 1)),
    ]
}
MESSAGES = {
    "model": MODEL,
    "max_tokens": COUNT,
    "messages": {
        "anyOf": [placed(_ASKED, _ASKED), placed(_ASKED, _message("assistant", SOME), _ASKED, least=3)]
    },
    "system": {"anyOf": [TEXT, listed(record({"type": const("text"), "text": SOME}), 3, 1)]},
    "tools": placed(
        *(record({"name": name, "input_schema": PARAMETERS}, description=TEXT) for name in NAMES)
    ),
    "tool_choice": record({"type": {"enum": ["none", "auto"]}}),
    "stop_sequences": listed({"type": "string", "pattern": "^[a-z]{1,8}$"}, 4),
    "top_k": {"type": "integer", "minimum": 0, "maximum": 1000},
    "stream": TRUTH,
}
EMBEDDINGS = {
    "model": const("vectors"),
    "input": COMPLETIONS["prompt"],
    "dimensions": {"type": "integer", "minimum": 1, "maximum": 64},
    "encoding_format": const(
        "float"
    ),  # for the other one, a text of base64, the published schema has no answer
}
COUNTED = {name: MESSAGES[name] for name in ("model", "messages", "system", "tools", "tool_choice")}
LEFT_OUT = {
    "/chat/completions": {
        "modalities",
        "audio",
        "prediction",
        "web_search_options",
        "function_call",
        "functions",
        "verbosity",
        "top_logprobs",
        "moderation",
    },
    "/completions": {"best_of", "suffix", "echo"},
    "/responses": {
        "previous_response_id",
        "conversation",
        "background",
        "prompt",
        "context_management",
        "top_logprobs",
        "max_tool_calls",
        "moderation",
    },
    "/v1/messages": {
        "container",
        "inference_geo",
        "thinking",
        "output_config",
        "service_tier",
        "cache_control",
        "output_format",
        "mcp_servers",
        "context_management",
        "speed",
        "metadata",
    },
    "/embeddings": set(),
    "/v1/messages/count_tokens": {
        "thinking",
        "output_config",
        "cache_control",
        "output_format",
        "mcp_servers",
        "context_management",
        "speed",
    },
}
"""Fields that ask for what there is not, or, as ``top_logprobs`` and ``best_of``, are bound to another field."""
NARROWED = {
    "/chat/completions": CHAT,
    "/completions": COMPLETIONS,
    "/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/embeddings": EMBEDDINGS,
    "/v1/messages/count_tokens": COUNTED,
}
