"""The access log of a real gateway: who, what, how much, how long, and how it ended."""

from __future__ import annotations

import asyncio
import re
import stat
from pathlib import Path
from typing import Any

import orjson

from reconciler.gateway.routing.timeouts import Timing
from reconciler.wire.gateway import AccessLog
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.gateway.conftest import Cluster, Start
from tests.gateway.rank_double import CACHED, PROMPT, Turn, eventually, silent, story

QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02)
BOUNDS = AccessLog(1 << 20, 86400.0, 3, 86400.0)
SECRET = "sk-very-secret"
REQUEST: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "the prompt itself"}]}


async def logging(start: Start, *scripts: Any, content: bool = False, keys: bool = False) -> Cluster:
    cluster = await start(*scripts, timing=QUICK)
    cluster.front = {"access_log": AccessLog(1 << 20, 86400.0, 3, 86400.0, content)}
    secrets = (AccessKey("webui", (SecretHash(hash_of(SECRET)),)),)
    await cluster.routed(*cluster.ranks, keys=secrets if keys else None)
    return cluster


async def lines(cluster: Cluster, count: int, name: str = "access.jsonl") -> list[dict[str, Any]]:
    """The lines of a log, once there are so many, without those of the tests' own looks at the gateway."""
    path = cluster.home / "logs" / name

    def found() -> list[dict[str, Any]]:
        read = path.read_bytes().splitlines() if path.exists() else []
        parsed = [orjson.loads(line) for line in read]
        return [line for line in parsed if line.get("path") != "/metrics"]

    await eventually(lambda: len(found()) >= count)
    assert len(found()) == count
    return found()


async def test_a_request_has_one_line_with_who_model_tokens_times_and_end(start: Start) -> None:
    cluster = await logging(start, story(7, pause=0.01), keys=True)
    key = {"authorization": f"Bearer {SECRET}", "x-request-id": "mine-1"}
    _, _, body = await cluster.post(REQUEST, **key)
    (line,) = await lines(cluster, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    first_token, first_byte, seconds = (line.pop(name) for name in ("first_token", "first_byte", "seconds"))
    assert 0 < first_token < first_byte <= seconds
    assert line.pop("sent") >= len(orjson.dumps(body)) - 50
    assert line == {
        "request": "mine-1",
        "client": "key webui",
        "method": "POST",
        "path": "/v1/chat/completions",
        "status": 200,
        "received": len(orjson.dumps(REQUEST)),
        "model": "llama",
        "prompt_tokens": len(PROMPT),
        "cached_tokens": CACHED,
        "completion_tokens": 7,
        "end": "stop",
        "groups": ["0/1"],
    }


async def test_without_a_declaration_there_is_no_log(start: Start) -> None:
    cluster = await start(story(1))
    assert (await cluster.post(REQUEST))[0] == 200
    assert not (cluster.home / "logs").exists()


async def test_every_way_to_end_is_told(start: Start) -> None:
    cluster = await logging(start, silent)
    assert (await cluster.post({**REQUEST, "model": "none"}))[0] == 404
    assert (await cluster.post(b"{"))[0] == 400
    assert (await cluster.post(REQUEST, origin="https://evil.example"))[0] == 403
    async with cluster.http.get(cluster.url("/v1/models?key=secret-in-a-query")) as answer:
        assert answer.status == 200
    gone = asyncio.create_task(cluster.post(REQUEST))
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    gone.cancel()
    found = await lines(cluster, 5)
    assert [(line["status"], line.get("end")) for line in found] == [
        (404, "model_not_found"),
        (400, "invalid_request_error"),
        (403, "foreign_origin"),
        (200, None),
        (0, "abort"),
    ]
    assert {line["client"] for line in found} == {"address 127.0.0.1"}
    assert found[3]["path"] == "/v1/models"


async def test_an_answer_that_goes_on_elsewhere_has_all_groups_and_its_tokens_once(start: Start) -> None:
    cluster = await logging(start, story(4, die_after=2), story(4))
    for _ in range(2):  # one of them begins with the group that dies
        await cluster.events(model="gpt-4o")
    found = await lines(cluster, 2)
    assert ["0/1", "1/1"] in [line["groups"] for line in found]
    assert {(line["completion_tokens"], line["end"]) for line in found} == {(4, "stop")}


async def test_an_answer_that_breaks_off_has_the_error_that_its_client_got(start: Start) -> None:
    async def one_word(turn: Turn) -> None:
        turn.accept()
        turn.say("w0 ", 0)
        await turn.hang()

    cluster = await logging(start, one_word)
    asking = asyncio.create_task(cluster.events())
    await cluster.ranks[0].until(lambda rank: bool(rank.asked))
    cluster.stop.set()
    events = await asking
    (line,) = await lines(cluster, 1)
    assert orjson.loads(events[-1][6:])["error"]["code"] == "shutting_down"
    assert (line["status"], line["end"], line["completion_tokens"]) == (200, "shutting_down", 1)


async def test_content_is_in_a_log_of_its_own_only_where_it_is_asked_for(start: Start) -> None:
    cluster = await logging(start, story(3), content=True, keys=True)
    await cluster.post(REQUEST, authorization=f"Bearer {SECRET}")
    (line,) = await lines(cluster, 1, "content.jsonl")
    assert orjson.loads(line["asked"]) == REQUEST
    assert orjson.loads(line["answered"])["choices"][0]["message"]["content"] == "w0 w1 w2 "
    assert (line["client"], line["model"]) == ("key webui", "llama")
    await lines(cluster, 1)
    logs = cluster.home / "logs"
    assert {stat.S_IMODE(path.stat().st_mode) for path in logs.iterdir()} == {0o600}
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    access = (logs / "access.jsonl").read_text()
    assert "the prompt itself" not in access
    assert "w0" not in access
    assert not [path for path in logs.iterdir() if SECRET in path.read_text()]


async def test_a_streamed_answer_is_in_both_logs_whole(start: Start) -> None:
    cluster = await logging(start, story(20, pause=0.005), content=True)
    events = await cluster.events()
    (line,) = await lines(cluster, 1, "content.jsonl")
    answered = line["answered"]
    assert [part for part in answered.split("\n") if part] == events
    assert (await lines(cluster, 1))[0]["sent"] == len(answered.encode())


async def test_a_folder_that_cannot_be_written_costs_lines_and_no_request(start: Start) -> None:
    cluster = await start(story(1), timing=QUICK)
    (cluster.home / "logs").write_text("in the way")
    cluster.front = {"access_log": BOUNDS}
    await cluster.routed(*cluster.ranks)
    for _ in range(3):
        assert (await cluster.post(REQUEST))[0] == 200

    for _ in range(200):
        if (await cluster.samples())["reconciler_access_log_dropped_lines_total"] >= 3:
            break
        await asyncio.sleep(0.05)
    (cluster.home / "logs").unlink()
    assert (await cluster.post(REQUEST))[0] == 200
    path = cluster.home / "logs" / "access.jsonl"
    await eventually(lambda: _has(path, "chat/completions"))
    first = orjson.loads(path.read_bytes().splitlines()[0])
    assert first["dropped"] >= 3


def _has(path: Path, word: str) -> bool:
    return path.exists() and word in path.read_text()
