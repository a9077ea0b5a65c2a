"""What every path of the endpoint makes of requests: each parameter with usual, odd and wrong values, and some together.

A line is what the request has in addition to the smallest one (values that become the same are in one line), and what it
becomes: the parts of the parsed request that are not as usual, or the error. ``answer`` is a digest of what is written for a fixed answer of a group. Of messages, the
role is written before the content.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any

import orjson
import pytest

from reconciler.gateway.dialects.dialect import Catalog, Generation, Parsed, Sources, is_stream
from reconciler.gateway.dialects.parameter_table import ROWS
from reconciler.gateway.dialects.table import DIALECTS
from reconciler.gateway.errors import ApiError
from reconciler.gateway.events import Piece
from reconciler.wire.generation import (
    Accepted,
    CallPart,
    Delta,
    Finished,
    Generate,
    Likely,
    Route,
    Scored,
    TokenLogprobs,
)
from reconciler.wire.question import Vector
from tests.recorded import compare, digest

from .conversations import ANTHROPIC, CHAT, RESPONSES
from .telling import FOLDER, Models, counted, differing, flat, folded, refused, short, told
from .values import BY_PATH, GENERIC, TOGETHER, Fields

PARSERS: Mapping[str, Callable[[bytes, Sources, Catalog], Parsed]] = {
    each.path: each.parse for dialect in DIALECTS for each in dialect.paths if isinstance(each, Generation)
}
HELLO = [{"role": "user", "content": "hello"}]
SMALLEST: Mapping[str, Fields] = {
    "/v1/chat/completions": {"model": "m", "messages": HELLO},
    "/v1/completions": {"model": "m", "prompt": "hello"},
    "/v1/embeddings": {"model": "m", "input": "hello"},
    "/v1/responses": {"model": "m", "input": "hello"},
    "/v1/responses/input_tokens": {"model": "m", "input": "hello"},
    "/v1/messages": {"model": "m", "max_tokens": 10, "messages": HELLO},
    "/v1/messages/count_tokens": {"model": "m", "messages": HELLO},
    "/tokenize": {"model": "m", "prompt": "hello"},
    "/detokenize": {"model": "m", "tokens": [1, 2]},
}
CATALOG = Models(Route("m", (), 4096, 1), Route("n", ("other",), 0, 2))
TABLE = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
_ROLE = re.compile(r'\{"role":"(\w+)","content":')
_SHOWN = r"\1:"
RANDOM = 40
"""Requests of each path with several parameters at a time."""


def body_of(path: str, fields: Fields) -> bytes:
    """The smallest request with some fields more; ``...`` takes one away."""
    given = {**SMALLEST[path], **fields}
    return orjson.dumps({name: value for name, value in given.items() if value is not ...})


def events(choice: Generate) -> Iterator[Any]:
    """An answer with everything in it that a group could send for a request."""
    token = TokenLogprobs(Likely(5, "x", -0.5, (120,)), (Likely(6, "y", -1.5, (121,)),))
    yield Accepted(
        "", (1, 2, 3), "hello" if choice.echo else "", token_texts=("a", "b", "c"), replaced=choice.replaced
    )
    if choice.scores is not None:
        yield Scored("", 0, (token, token, token))
    if choice.texts is not None:
        yield Delta("", (), vectors=(Vector(0, "AACAPwAAAEA="),))
    if choice.question is None:
        yield Delta("", (7,), "", "hmm")
        yield Delta("", (8, 9), "so", logprobs=(token, token) if choice.logprobs is not None else ())
        yield Delta("", (10,), "", "", (CallPart(0, "look__f", "c0", '{"a":1}'),))
    yield Finished("", "stop", 3, 4, 1, stop="so" if choice.stop else None)


def written(parsed: Parsed) -> str:
    """What clients get for such answers."""
    pieces: list[Piece] = [
        (index, event) for index, choice in enumerate(parsed.choices) for event in events(choice)
    ]
    answer = parsed.answer
    if is_stream(answer):
        return digest(answer.encode(pieces) + b"|" + type(answer).__name__.encode())
    answer.add(pieces)
    return digest(answer.body())


def parts_of(path: str, body: bytes) -> Mapping[str, str]:
    parsed = PARSERS[path](body, counted(), CATALOG)
    first, *more = parsed.choices
    others = [differing(flat(choice), flat(first)) for choice in more]
    rest = {
        each.name: told(getattr(parsed, each.name))
        for each in dataclasses.fields(parsed)
        if each.name not in ("choices", "answer")
    }
    return {**flat(first), "more": told(others), **rest, "answer": written(parsed)}


@cache
def usual(path: str) -> Mapping[str, str]:
    return parts_of(path, body_of(path, {}))


@cache
def became(path: str, body: bytes) -> str:
    try:
        return differing(parts_of(path, body), usual(path))
    except ApiError as error:
        return refused(error)


def line(path: str, fields: Fields, label: str = "", length: int = 70) -> str:
    label = label or " ".join(f"{name}={short(_json(value), 50)}" for name, value in fields.items())
    text = _ROLE.sub(_SHOWN, became(path, body_of(path, fields)))
    return f"{label}: {short(text, length)}"


def grouped(path: str, name: str, values: Sequence[Any]) -> Iterator[str]:
    """A line for all values of a parameter that become the same."""
    found: dict[str, list[Any]] = {}
    for value in values:
        found.setdefault(became(path, body_of(path, {name: value})), []).append(value)
    for text, same in found.items():
        label = " | ".join(short(_json(value), 40) for value in same)
        yield f"{name}={label}: {short(_ROLE.sub(_SHOWN, text), 70)}"


def _json(value: Any) -> str:
    return "absent" if value is ... else orjson.dumps(value).decode()


def drawn(path: str, values: Mapping[str, Sequence[Any]]) -> Iterator[Fields]:
    """Several parameters with values that are mostly good ones."""
    rng = Random(f"requests of {path}")
    able = {
        name: [value for value in each if not became(path, body_of(path, {name: value})).startswith("400 ")]
        for name, each in values.items()
    }
    names = [name for name, each in able.items() if each]
    for _ in range(RANDOM):
        chosen = rng.sample(names, min(len(names), rng.randint(2, 6)))
        yield {name: rng.choice(able[name] if rng.random() < 0.97 else list(values[name])) for name in chosen}


@pytest.mark.parametrize("path", SMALLEST)
def test_requests_become_what_they_became_before(path: str) -> None:
    lines = [f"the smallest: {' '.join(f'{name}={part}' for name, part in usual(path).items())}"]
    lines += [each for name, values in BY_PATH[path].items() for each in grouped(path, name, values)]
    lines += [line(path, fields, label) for label, fields in TOGETHER.get(path, {}).items()]
    lines += folded([line(path, fields, length=60) for fields in drawn(path, BY_PATH[path])], 3, 3)
    compare(FOLDER / f"requests{path.replace('/', '_')}.txt", lines)


def test_parameters_of_other_servers_are_taken_and_refused_as_before() -> None:
    """A column for each path, in it a character for each value of the first line: as without it (``.``), refused by its name
    (``x``), refused otherwise (``e``), or with an effect (``+``). Then the digest of all texts."""
    lines = [f"{' '.join(TABLE)}: {' '.join(_json(value) for value in GENERIC)}"]
    for name in dict.fromkeys(name for row in ROWS for name in row.names):
        found = [[_taken(path, name, value) for value in GENERIC] for path in TABLE.values()]
        columns = ["".join(_sign(text, name) for text in column) for column in found]
        lines.append(f"{name} {' '.join(columns if len(set(columns)) > 1 else columns[:1])} {digest(found)}")
    compare(FOLDER / "parameters.txt", lines)


@cache
def _parsed(path: str) -> Parsed:
    return PARSERS[path](body_of(path, {}), counted(), CATALOG)


def _taken(path: str, name: str, value: Any) -> str:
    """The error for a parameter, or whether it has an effect."""
    try:
        parsed, usual_one = PARSERS[path](body_of(path, {name: value}), counted(), CATALOG), _parsed(path)
    except ApiError as error:
        return refused(error)
    same = dataclasses.replace(parsed, answer=usual_one.answer) == usual_one
    return "as usual" if same else "an effect"


def _sign(text: str, name: str) -> str:
    named = f"400 {name}: {name} is not supported yet"
    return {"as usual": ".", "an effect": "+"}.get(text) or ("x" if text.startswith(named) else "e")


def conversations(kinds: Mapping[str, Any], number: int, seed: str) -> Iterable[tuple[str, list[Any]]]:
    """Each kind of message alone, after another one, before another one, and some of them in any order."""
    rng = Random(seed)
    names = list(kinds)
    usual_ones = names[:8]
    found = [[name] for name in names]
    found += [[names[0], name] for name in names] + [
        [name, names[0]] for name in names[: 4 * len(usual_ones)]
    ]
    found += [[name, name] for name in names[: 2 * len(usual_ones)]]
    found += [
        rng.choices(names, k=rng.randint(1, 2)) + rng.choices(usual_ones, k=rng.randint(1, 4))
        for _ in range(number)
    ]
    for chosen in found:
        yield " ".join(chosen), [kinds[name] for name in chosen]


@pytest.mark.parametrize(
    ("path", "field", "kinds"),
    [
        ("/v1/chat/completions", "messages", CHAT),
        ("/v1/messages", "messages", ANTHROPIC),
        ("/v1/responses", "input", RESPONSES),
    ],
)
def test_conversations_become_what_they_became_before(
    path: str, field: str, kinds: Mapping[str, Any]
) -> None:
    lines = [
        line(path, {field: messages}, label, 60).replace(f"{field}=", "")
        for label, messages in conversations(kinds, 40, path)
    ]
    shown = len(lines) - 40
    lines = [*lines[:shown], *folded(lines[shown:], 3, 3)]
    compare(FOLDER / f"conversations{path.replace('/', '_')}.txt", lines)
