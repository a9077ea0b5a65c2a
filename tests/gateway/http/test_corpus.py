"""Requests as the world sends them, replayed at every endpoint: an answer or a clear refusal, never a lost body, and never a
connection that is out of step."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.gateway.routing.timeouts import Timing
from reconciler.serving.limiter import ConnectionLimits
from reconciler.wire.gateway import AccessLog, Tls
from reconciler.wire.generation import Accepted, Delta
from reconciler.wire.question import Vector
from tests.certificates import made
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import Turn, story

from .corpus import COMBINED, CORPUS, Endpoint, Entry
from .replay import HEALTH, Answer, Line, replay


def post(path: str, **fields: object) -> Endpoint:
    return Endpoint("POST", path, orjson.dumps({"model": "llama", **fields}), reads=True)


CHAT = post("/v1/chat/completions", messages=HELLO)
MESSAGES = post("/v1/messages", messages=HELLO, max_tokens=4)
ENDPOINTS = [
    CHAT,
    post("/v1/chat/completions", messages=HELLO, stream=True),
    post("/v1/completions", prompt="a"),
    post("/v1/completions", prompt="a", stream=True),
    post("/v1/responses", input="a"),
    post("/v1/responses", input="a", stream=True),
    post("/v1/responses/input_tokens", input="a"),
    MESSAGES,
    post("/v1/messages", messages=HELLO, max_tokens=4, stream=True),
    post("/v1/messages/count_tokens", messages=HELLO),
    post("/v1/embeddings", input="a"),
    post("/tokenize", prompt="a"),
    post("/detokenize", tokens=[1]),
    *(Endpoint("GET", path) for path in ("/v1/models", "/v1/models/llama", "/version", "/health", "/ready")),
    *(
        Endpoint("GET", path)
        for path in ("/", "/metrics", "/v1/responses/resp_1", "/nowhere", "/v1/messages/x")
    ),
    *(Endpoint("POST", path, b"{}") for path in ("/ping", "/hooks/git", "/nowhere")),
]
QUICK = Timing(shutdown=0.5, hello=60.0, routes_idle=0.02)


async def answering(turn: Turn) -> None:
    """Answer prompts with a word, and questions with what fits all of them."""
    if turn.generate.question is None:
        await story(1)(turn)
        return
    request = turn.generate.request
    vectors = (Vector(0, "AACAPw=="),) if turn.generate.texts else ()
    turn.send(Accepted(request, (5,)), Delta(request, (), "a", vectors=vectors))
    turn.finish()


@pytest.fixture(autouse=True)
def no_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has no error, and no traceback."""
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.fixture
async def cluster(start: Start) -> Cluster:
    return await start(answering, timing=QUICK)


async def plain_status(cluster: Cluster, endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> int:
    async with Line(cluster.listen, tls) as line:
        line.writer.write(PLAIN.filled(endpoint))
        answer = await line.answer()
        assert answer is not None
        return answer.status


PLAIN = next(entry for entry in CORPUS if entry.name == "a plain request")


class Ear:
    """A second connection. Once it has an answer, the gateway has read what was sent on others before."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def heard(self) -> None:
        self._line.writer.write(HEALTH)
        assert await self._line.answer() is not None


@pytest.fixture
async def ear(cluster: Cluster) -> AsyncIterator[Ear]:
    async with Line(cluster.listen) as line:
        yield Ear(line)


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.path + "?" * (b"stream" in endpoint.body)
)
async def test_each_request_of_the_corpus_is_answered_or_refused(
    cluster: Cluster, subtests: pytest.Subtests, endpoint: Endpoint
) -> None:
    plain = await plain_status(cluster, endpoint)
    for entry in CORPUS:
        with subtests.test(entry.name):
            async with Line(cluster.listen) as line:
                line.writer.write(entry.filled(endpoint))
                await replay(line, entry, endpoint, plain)


@pytest.mark.parametrize("endpoint", [CHAT, MESSAGES], ids=lambda endpoint: endpoint.path)
async def test_offers_codings_frames_and_expectations_go_together(
    cluster: Cluster, subtests: pytest.Subtests, endpoint: Endpoint
) -> None:
    for entry in COMBINED:
        with subtests.test(entry.name):
            async with Line(cluster.listen) as line:
                line.writer.write(entry.filled(endpoint))
                await replay(line, entry, endpoint, 200)


@pytest.mark.second_tier
async def test_it_does_not_matter_where_a_request_is_split(
    cluster: Cluster, ear: Ear, subtests: pytest.Subtests
) -> None:
    for entry in CORPUS:
        sent = entry.filled(CHAT)
        with subtests.test(entry.name):
            step = max(1, len(sent) // 40) if entry.small else len(sent) // 4
            for at in range(1, len(sent), step):
                await split(cluster, ear, entry, [sent[:at], sent[at:]])


OFFERS = [entry for entry in CORPUS if any("Upgrade" in line for line in entry.head)]


@pytest.mark.second_tier
@pytest.mark.parametrize("entry", OFFERS, ids=lambda entry: entry.name)
async def test_an_offer_may_be_split_at_every_byte(cluster: Cluster, ear: Ear, entry: Entry) -> None:
    sent = entry.filled(CHAT)
    for at in range(1, len(sent)):
        await split(cluster, ear, entry, [sent[:at], sent[at:]])


@pytest.mark.second_tier
async def test_a_request_may_come_byte_by_byte(cluster: Cluster, ear: Ear, subtests: pytest.Subtests) -> None:
    for entry in [each for each in CORPUS if each.small]:
        with subtests.test(entry.name):
            sent = entry.filled(MESSAGES)
            if len(sent) < 600 and not (entry.after and entry.connection and not entry.then):
                await split(cluster, ear, entry, [bytes([byte]) for byte in sent], MESSAGES)


async def split(
    cluster: Cluster, ear: Ear, entry: Entry, parts: list[bytes], endpoint: Endpoint = CHAT
) -> None:
    async with Line(cluster.listen) as line:
        for part in parts:
            line.writer.write(part)
            await ear.heard()
        await replay(line, entry, endpoint, 200)


@pytest.mark.second_tier
async def test_whoever_leaves_in_the_middle_leaves_nothing_behind(cluster: Cluster, ear: Ear) -> None:
    for entry in [each for each in CORPUS if each.small and each.times == 1]:
        sent = entry.filled(CHAT)
        for at in range(1, len(sent), max(1, len(sent) // 20)):
            async with Line(cluster.listen) as line:
                line.writer.write(sent[:at])
                await ear.heard()
    await cluster.until_sample('reconciler_connections{state="busy"}', 1)  # the one that asks
    await cluster.until_sample('reconciler_connections{state="unfinished"}', 0)


@pytest.mark.second_tier
async def test_the_corpus_is_answered_in_tls_too(
    cluster: Cluster, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    names = Tls(str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem"))
    for path, text in zip((names.certificate, names.key), made(), strict=True):
        Path(path).write_bytes(text)
    cluster.front = {"tls": names}
    await cluster.routed(*cluster.ranks)
    tls = ssl.create_default_context(cafile=names.certificate)
    for endpoint in (CHAT, MESSAGES, Endpoint("GET", "/v1/models")):
        plain = await plain_status(cluster, endpoint, tls)
        for entry in CORPUS:
            sent = entry.filled(endpoint)
            with subtests.test(entry.name):
                for at in {0, len(sent) // 2} if endpoint is CHAT else {0}:
                    async with Line(cluster.listen, tls) as line:
                        for part in (sent[:at], sent[at:]):
                            line.writer.write(part)
                            await asyncio.sleep(0)
                        await replay(line, entry, endpoint, plain)


# --- who waits to be asked for the body ------------------------------------------------------------------


WAITING = "POST {} HTTP/1.1\r\nHost: {}\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n"


async def test_a_body_that_is_wanted_is_asked_for(cluster: Cluster, subtests: pytest.Subtests) -> None:
    for endpoint in [each for each in ENDPOINTS if each.reads]:
        with subtests.test(endpoint.path):
            async with Line(cluster.listen) as line:
                line.writer.write(WAITING.format(endpoint.path, "localhost", len(endpoint.body)).encode())
                assert await line.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                line.writer.write(endpoint.body)
                answer = await line.answer()
                assert answer is not None
                assert answer.status == 200
                await line.assert_in_step(answer)


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/v1/chat/completions", "evil.example", 403),
        ("/nowhere", "localhost", 404),
        ("/v1/models", "localhost", 405),
    ],
)
@pytest.mark.parametrize("sends", [b"", b"{}", HEALTH])
async def test_who_is_refused_without_the_body_may_send_it_or_not(
    cluster: Cluster, path: str, host: str, status: int, sends: bytes
) -> None:
    async with Line(cluster.listen) as line:
        line.writer.write(WAITING.format(path, host, 2).encode())
        answer = await line.answer()
        assert answer is not None
        assert (answer.status, answer.closes) == (status, True)
        line.writer.write(sends)
        await line.assert_in_step(answer)


# --- other properties ------------------------------------------------------------------------------------


async def test_a_stream_of_http_1_0_ends_with_its_connection(cluster: Cluster) -> None:
    body = orjson.dumps({"model": "llama", "messages": HELLO, "stream": True})
    async with Line(cluster.listen) as line:
        line.writer.write(
            b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        answer = await line.answer()
    assert answer is not None
    assert "transfer-encoding" not in answer.headers
    assert answer.body.startswith(b"data: {")
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")


async def test_a_large_body_is_decoded_while_others_are_answered(cluster: Cluster) -> None:
    """What is decoded is 11 MiB of white space; in each turn of the loop only a part of it."""
    entry = Entry(
        "large",
        ("{method} {path} HTTP/1.1", "Host: localhost", "Content-Encoding: gzip", "Content-Length: {length}"),
        body=("gzip",),
    )
    large = Endpoint("POST", CHAT.path, b" " * (11 << 20) + CHAT.body)
    async with Line(cluster.listen) as asking, Line(cluster.listen) as beside:
        asking.writer.write(entry.filled(large))
        between = 0
        answering = asyncio.create_task(asking.answer())
        while not answering.done():
            beside.writer.write(HEALTH)
            assert await beside.answer() is not None
            between += 1
        answer = await answering
    assert answer is not None
    assert answer.status == 200
    assert between > 20


async def test_nothing_of_a_query_or_of_a_header_comes_into_the_log(start: Start) -> None:
    cluster = await start(answering, timing=QUICK)
    cluster.front = {"access_log": AccessLog(1 << 20, 86400.0, 3, 86400.0)}
    await cluster.routed(*cluster.ranks)
    asked = [each for each in CORPUS if "secret" in "".join(each.head) + each.raw]
    assert asked
    for entry in asked:
        async with Line(cluster.listen) as line:
            line.writer.write(entry.filled(CHAT))
            assert await line.answer() is not None
    logs = cluster.home / "logs"
    await cluster.until(lambda: any(path.stat().st_size for path in logs.rglob("*") if path.is_file()))
    written = b"".join(path.read_bytes() for path in logs.rglob("*") if path.is_file())
    assert CHAT.path.encode() in written
    assert b"secret" not in written


# --- what nobody has thought of --------------------------------------------------------------------------

TOGETHER = 20
MUTANTS = 400
NOW = ConnectionLimits(
    in_all=200, of_one=200, leaving=50, head_seconds=0.2, idle_seconds=0.2, leaving_seconds=0.2
)
LINES = [
    line.encode("latin-1") for entry in CORPUS if entry.small for line in entry.head[1:] if "{" not in line
]

MUTABLE = [entry for entry in CORPUS if entry.small and not entry.asked]
"""Without HEAD: who does not know which of several requests it was cannot read the answers to the others."""


@st.composite
def mutated(draw: st.DrawFn) -> tuple[list[bytes], str]:
    """Some bytes of the corpus, changed, in some segments; and the path that was asked."""
    endpoint = draw(st.sampled_from(ENDPOINTS))
    entries = draw(st.lists(st.sampled_from(MUTABLE), min_size=1, max_size=3))
    sent = bytearray(b"".join(entry.filled(endpoint) for entry in entries))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(sent)))
        length = draw(st.sampled_from([1, 2, 10]))
        match draw(st.sampled_from(["delete", "byte", "repeat", "line", "cut", "end"])):
            case "delete":
                del sent[at : at + length]
            case "byte":
                sent[at : at + 1] = draw(st.binary(min_size=1, max_size=2))
            case "repeat":
                sent[at:at] = sent[at : at + length * 10]
            case "line":
                ends = [place for place in range(len(sent)) if sent[place : place + 2] == b"\r\n"]
                place = draw(st.sampled_from(ends)) if ends else 0
                sent[place:place] = b"\r\n" + draw(st.sampled_from(LINES))
            case "cut":
                del sent[at:]
            case _:
                sent[at:at] = draw(st.sampled_from([b"\r\n", b"\n", b"\r", b"0\r\n\r\n", b"\r\n\r\n"]))
    cuts = sorted({0, len(sent), *draw(st.lists(st.integers(0, len(sent)), max_size=3))})
    return [bytes(sent[one:other]) for one, other in itertools.pairwise(cuts)], endpoint.path


@pytest.fixture
async def hasty(start: Start) -> Cluster:
    return await start(answering, timing=Timing(shutdown=0.5, hello=60.0, body=0.2), limits=NOW)


@pytest.mark.timeout(600)
@given(sent=st.lists(mutated(), min_size=TOGETHER, max_size=TOGETHER))
@settings(max_examples=MUTANTS // TOGETHER, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_bytes_get_answers_or_refusals_and_end(
    hasty: Cluster, sent: list[tuple[list[bytes], str]]
) -> None:
    await asyncio.gather(*[answers_end(hasty, parts) for parts, _ in sent])
    async with Line(hasty.listen) as line:
        await line.assert_in_step(await asked_health(line))


async def asked_health(line: Line) -> Answer | None:
    line.writer.write(HEALTH)
    return await line.answer()


async def answers_end(cluster: Cluster, parts: list[bytes]) -> None:
    """Whatever comes back is HTTP, no failure of the gateway, and has an end."""
    async with Line(cluster.listen) as line:
        for part in parts:
            line.writer.write(part)
            await asyncio.sleep(0)
        while (answer := await line.answer()) is not None:
            assert answer.status != 500
            if answer.closes:
                break
