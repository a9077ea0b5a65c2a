"""What it costs to hold answers to a form: tokens a second, and the time to the first token of a form that is known."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.wire.form import FREE, Form
from reconciler.wire.generation import Delta
from reconciler.wire.sampling import Ending
from tests.bench.figures import Figure, alone, paired
from tests.runner.conftest import write_endless
from tests.runner.ranks import Client, connected, running

STREAMS = 8
RANKS = (1, 2)
LONG = Form(
    schema=json.dumps(
        {
            "type": "array",
            "minItems": 500,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 24},
                    "kind": {"enum": ["node", "rank", "group"]},
                    "sizes": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
                },
                "required": ["name", "kind", "sizes"],
                "additionalProperties": False,
            },
        }
    )
)
"""It does not end before the tokens do."""


def measure(quick: bool) -> Iterator[Figure]:
    """One rank and two, each asked for the same number of tokens with a form and without one, in turns."""
    times, tokens, firsts = (2, 40, 4) if quick else (7, 400, 40)
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        model = write_endless(Path(folder))
        for ranks in RANKS:
            with running(model, ranks, context=1024, batch_max=STREAMS) as group:
                group.ready()
                held, free, added = asyncio.run(_all(group.socket, times, tokens, firsts))
            words = f"{ranks} rank{'s'[: ranks - 1]}"
            yield paired(f"answers of a form, {STREAMS} streams, {words}", "tokens/s", held, free, ">= 0.9")
            yield alone(f"the same: added to the first token, {words}", "ms", added, "<= 2")


async def _all(
    path: str, times: int, tokens: int, firsts: int
) -> tuple[list[float], list[float], list[float]]:
    async with connected(path) as client:
        await _speed(client, LONG, 4)
        held, free = [], []
        for _ in range(times):
            held.append(await _speed(client, LONG, tokens))
            free.append(await _speed(client, FREE, tokens))
        added = []
        for _ in range(firsts):
            known, none = await _first(client, LONG), await _first(client, FREE)
            added.append(1000 * (known - none))
        return held, free, [statistics.median(added)]


async def _speed(client: Client, form: Form, tokens: int) -> float:
    began = time.perf_counter()
    names = [f"{began}-{number}" for number in range(STREAMS)]
    replies = await asyncio.gather(*(client.ask(name, "Count", **_fields(form, tokens)) for name in names))
    said = sum(len(reply.tokens) for reply in replies)
    if said != STREAMS * tokens:
        raise RuntimeError(f"{said} tokens came, {STREAMS * tokens} were asked for")
    return said / (time.perf_counter() - began)


async def _first(client: Client, form: Form) -> float:
    began = time.perf_counter()
    reply = await client.ask(f"{began}", "Count", **_fields(form, 1))
    assert any(isinstance(event, Delta) for event in reply.events)
    return time.perf_counter() - began


def _fields(form: Form, tokens: int) -> dict[str, object]:
    ending = Ending(ignore_end=True) if form.free else Ending()
    return {"form": form, "tokens_max": tokens, "ending": ending}
