"""What clients of the endpoint see beside answers: errors, paths, refusals, codings, models, headers, logs and metrics.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import hmac
import itertools
import os
import re
import zlib
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from backports import zstd
from starlette.exceptions import HTTPException
from starlette.requests import Request

from reconciler.errors import ReconcilerError
from reconciler.gateway import errors
from reconciler.gateway.collectors import AccessLog as LostLines
from reconciler.gateway.dialects.dialect import Generation
from reconciler.gateway.dialects.fields import Fields
from reconciler.gateway.dialects.openai import model_list
from reconciler.gateway.dialects.replaced import Head
from reconciler.gateway.dialects.table import DEFAULT, DIALECTS
from reconciler.gateway.errors import ApiError
from reconciler.gateway.figures import Figure, Figures
from reconciler.gateway.hooks.signature import sent_by_who_knows
from reconciler.gateway.http import authentication, codings, cross_origin
from reconciler.gateway.http.paths import Endpoint, Paths
from reconciler.gateway.http.refusals import ErrorPages, ForeignPages
from reconciler.gateway.keys.caller import Caller, KeyRing
from reconciler.gateway.metrics import Metrics, Timeline
from reconciler.gateway.records.entry import Entry
from reconciler.gateway.records.file import RotatedFile
from reconciler.gateway.routing.runs import Runs, Tally
from reconciler.serving.objections import Objection
from reconciler.wire.gateway import AccessLog
from reconciler.wire.generation import (
    Accepted,
    Delta,
    Finished,
    KeptPrefixes,
    Prefill,
    Replaced,
    Route,
    ToolCall,
)
from reconciler.wire.keys import AccessKey, SecretHash, hash_of
from tests.recorded import compare, digest

from .conversations import deep
from .telling import FOLDER, Models, folded, outcome, refused, short, told

T = TypeVar("T")
FIGURES = Figures(Figure(10, 3, 12.5), Figure(100, 0, 61.0), 1_700_000_000.25)
ERRORS: dict[str, ApiError] = {
    "invalid": errors.invalid("wrong", "messages[0].role"),
    "invalid as a whole": errors.invalid("wrong", None, "some_code"),
    "invalid messages": errors.invalid("wrong", "messages"),
    "unsupported": errors.unsupported("x", "x"),
    "unsupported for a reason": errors.unsupported("x", "x", "use y"),
    "prompt too long": errors.prompt_too_long(10, 5),
    "too large": errors.too_large(100),
    "too large decoded": errors.too_large(100, decoded=True),
    "unknown coding": errors.unknown_coding("br", ("gzip", "zstd")),
    "undecodable": errors.undecodable("gzip", "bad"),
    "refused": errors.refused(Objection(400, "bad_request", "bad")),
    "refused for a while": errors.refused(Objection(503, "full", "full", retry_after=3)),
    "refused for good": errors.refused(Objection(503, "full", "full")),
    "key missing": errors.key_missing(),
    "key unknown": errors.key_unknown(False),
    "key mistyped": errors.key_unknown(True),
    "key revoked": errors.key_revoked("gone"),
    "key expired": errors.key_expired("old"),
    "model forbidden": errors.model_forbidden("m" * 300, "k"),
    "rate limited": errors.rate_limited("text", 5, FIGURES),
    "rate limited at once": errors.rate_limited("text", 0, Figures()),
    "rate limited for ever": errors.rate_limited("text", None, FIGURES),
    "daily budget": errors.daily_budget_used("text", FIGURES),
    "metrics forbidden": errors.metrics_forbidden("k"),
    "foreign host": errors.foreign_host("h" * 300),
    "foreign page": errors.foreign_page("http://h"),
    "from elsewhere": errors.from_elsewhere("10.0.0.1"),
    "model not found": errors.model_not_found("m"),
    "model loading": errors.model_loading("m", 7),
    "model refused": errors.model_refused("m", "NoRoom", 7),
    "model waiting": errors.model_waiting("m", 7),
    "prompt quarantined": errors.prompt_quarantined("m", 2, "r", 60),
    "overloaded": errors.overloaded("full"),
    "older group": errors.older_group(),
    "shutting down": errors.shutting_down(),
    "internal": errors.internal("lost"),
    "surrogate": errors.invalid("\ud83e", "x"),
}  # fmt: skip


def test_errors_are_written_as_before() -> None:
    lines = []
    for name, error in ERRORS.items():
        assert isinstance(error, ReconcilerError)
        lines.append(f"{name}: {short(refused(error), 200)} {str(error) == error.text} {error.kind}")
        for dialect in DIALECTS:
            rendered = dialect.rendered(error, "req_1" if name != "invalid" else "")
            shown = f"{rendered.status} {rendered.body.decode()} {told(rendered.headers)}"
            if dialect.name != "vLLM":
                lines.append(f"  {dialect.name}: {digest(shown)} {rendered.status}")
    compare(FOLDER / "errors.txt", lines)


# --- paths --------------------------------------------------------------------------------------------


class App:
    """An endpoint that is no function."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError


async def looked_up(request: Request) -> Any:
    raise AssertionError


def all_paths() -> Paths:
    rows = [
        Endpoint(row.method, row.path, App() if isinstance(row, Generation) else looked_up, dialect)
        for dialect in DIALECTS
        for row in dialect.paths
    ]
    return Paths(
        [
            *rows,
            Endpoint("GET", "/health", looked_up, DEFAULT, open=True),
            Endpoint("GET", "/metrics", looked_up, DEFAULT),
        ],
        DEFAULT,
    )


ASKED = (
    "/", "", "/v1", "/v1/", "/v1/models", "/v1/models/", "/v1/models/a/b", "/models", "/v1/v1/models", "/v1/chat/completions",
    "/v1/chat/completions/", "/chat/completions", "/v1/chat", "/v1/chat/completions/x", "/openai/v1/chat/completions", "/completions",
    "/v1/completions/x", "/v1/responses", "/v1/responses/x", "/v1/responses/x/cancel", "/v1/responses/x/input_items", "/responses",
    "/v1/responses/input_tokens", "/v1/messages", "/messages", "/v1/messages/batches", "/v1/messages/count_tokens/", "/v1/messagesx",
    "/tokenize", "/v1/tokenize", "/detokenize/", "/version", "/v1/version", "/health", "/v1/health", "/metrics", "/api/chat", "/api/tags",
    "/api/generate/x", "/api/v0/models", "/api/v1/models", "/v1/embeddings", "/embeddings", "/api/embeddings", "/v1/audio/speech",
    "/v1/images/generations", "/v1/rerank", "/rerank", "/score", "/v1/files", "/v1/batches/x", "/v1/assistants", "/props", "/slots",
    "/generate", "/generate_stream", "/info", "/v1/organization", "/anthropic/v1/messages", "/anthropic/v1/v1/messages", "//v1//models",
    "/v1/complete", "/v1/moderations", "/v1/fine_tuning/jobs", "/infill", "/ping", "/load", "/apix", "/v1/threads",
)  # fmt: skip


def test_paths_are_known_and_advised_as_before() -> None:
    paths, lines = all_paths(), []
    for path in ASKED:
        known = f"{paths.dialect(path).name} {','.join(paths.methods(path))} {paths.open(path)}"
        lines.append(f"{path}: {known} {short(paths.advice(path, 'http://h:1'), 70)}")
    lines.append(told(sorted(paths.names())))
    lines.append(told([f"{method} {path}" for method, path in paths.plain()]))
    lines.append(told([(route.path, sorted(route.methods or ())) for route in paths.routes()]))
    pages = ErrorPages(paths)
    for method, path, status in (
        ("OPTIONS", "*", 404), ("GET", "*", 404), ("OPTIONS", "/x", 404), ("PUT", "/v1/models", 405), ("DELETE", "/v1/messages", 405),
        ("GET", "/v1/messages/x", 404), ("POST", "/v1/chat", 404), ("POST", "/v1/responses/x", 405),
    ):  # fmt: skip
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": [(b"host", b"h" * 400)],
            "query_string": b"",
            "scheme": "http",
        }
        for more in ({}, {"request_id": "req_1"}):
            request = Request({**scope, **more})
            for answer in (pages.refuse(request, HTTPException(status)), pages.fail(request)):
                shown = f"{answer.status_code} {bytes(answer.body).decode()} {told(answer.raw_headers)}"
                lines.append(f"{method} {path} {status}: {short(shown, 70)}")
    compare(FOLDER / "paths.txt", lines)


ORIGINS = (
    "",
    "http://own",
    "http://localhost:3000",
    "https://page.example",
    "https://other.example",
    "null",
    "http://10.1.1.1",
)
HOSTS = (
    "localhost:8000",
    "own:80",
    "OWN",
    "evil.example",
    "10.0.2.2",
    "[::1]:80",
    "127.0.0.1",
    "",
    "mine.example",
)


def test_foreign_pages_are_refused_as_before() -> None:
    lines = []
    for keys, allowed in itertools.product((False, True), ((), ("https://page.example",), ("*",))):
        pages = ForeignPages(lambda: {"own", "mine.example"}, partial(tuple, allowed), partial(bool, keys))
        for host in HOSTS:
            found = []
            for origin in ORIGINS:
                headers = [(b"origin", origin.encode())] if origin else []
                refusal = pages.refusal({"headers": [*headers, (b"host", host.encode())]})
                found.append(refusal.code if refusal else "-")
            lines.append(
                f"{'keys' if keys else 'open'} {told(allowed)} {host}: {' '.join(str(each).removeprefix('foreign_') for each in found)}"
            )
        others: list[list[tuple[bytes, bytes]]] = [
            [],
            [(b"host", b"own"), (b"host", b"evil.example")],
            [(b"origin", b"http://own"), (b"origin", b"http://evil.example")],
        ]
        lines += [f"  {told(each)}: {outcome(pages.refusal, {'headers': each})}" for each in others]
    compare(FOLDER / "foreign_pages.txt", lines)


async def test_pages_of_other_sites_are_answered_as_before() -> None:
    lines = []
    for origin, allowed in itertools.product(
        ("", "https://a", "https://b"), ((), ("https://a",), ("*",), ("https://b", "*"))
    ):
        lines.append(
            f"{origin} {told(allowed)}: {cross_origin.allowed(origin, allowed)} {told(cross_origin.headers_for(origin, allowed))}"
        )
        for method, headers in itertools.product(
            ("OPTIONS", "POST"),
            (
                [], [(b"access-control-request-method", b"POST")],
                [(b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"authorization, X-A")],
                [(b"access-control-request-headers", b"a\x00b"), (b"access-control-request-private-network", b"true")],
                [(b"access-control-request-headers", b""), (b"access-control-request-private-network", b"1")],
            ),
        ):  # fmt: skip
            scope = {"type": "http", "method": method, "headers": headers}
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await cross_origin.answer_question(scope, origin, allowed, send)
            asks = cross_origin.is_question(scope, origin, allowed)
            if method == "OPTIONS":
                lines.append(f"  {asks} {digest(told(sent), 4)} {short(told(sent[0]['headers'][:1]), 60)}")
            else:
                assert not asks
    compare(FOLDER / "cross_origin.txt", lines)


def test_senders_are_known_as_before() -> None:
    ring = KeyRing(
        [
            AccessKey("k", (SecretHash(hash_of("good")),)),
            AccessKey("old", (SecretHash(hash_of("past")),), expires=5.0),
        ]
    )
    given: list[list[tuple[bytes, bytes]]] = [
        [], [(b"authorization", b"Bearer good")], [(b"authorization", b"bearer  good ")], [(b"authorization", b"Basic good")],
        [(b"authorization", b"Bearer ")], [(b"authorization", b"Bearer")], [(b"x-api-key", b"good")], [(b"api-key", b"good")],
        [(b"x-api-key", b"")], [(b"x-api-key", b"bad")], [(b"x-api-key", b"bad"), (b"api-key", b"good")],
        [(b"x-api-key", b"past"), (b"api-key", b"bad")], [(b"x-api-key", b"bad"), (b"api-key", b"past")], [(b"x-other", b"good")],
        [(b"x-api-key", b"\xff")], [(b"authorization", b"Bearer past")],
    ]  # fmt: skip
    lines = []
    for (name, keys), client in itertools.product(
        (("open", None), ("keys", ring)), (("127.0.0.1", 5), ("10.0.0.1", 5), ("::1", 5), None, ("odd", 1))
    ):
        if keys is not None and client is not None and client[0] != "10.0.0.1":
            continue
        who = authentication.Authentication(all_paths(), partial(_same, keys), lambda: 10.0)
        for headers, path in itertools.product(given, ("/v1/models", "/health")):
            usual = client is None or client[0] == "127.0.0.1" or keys is not None
            if headers[:1] != given[1][:1] and (path == "/health" or not usual):
                continue
            scope = {"path": path, "headers": headers, **({"client": client} if client or keys else {})}
            text = outcome(sender, who, scope)
            lines.append(f"{name} {told(client)} {path} {told(headers)}: {short(text, 60)}")
    compare(FOLDER / "senders.txt", lines)


def _same(value: T) -> T:
    return value


def sender(who: authentication.Authentication, scope: dict[str, Any]) -> Any:
    before = authentication.client_of(scope)
    scope[authentication.SCOPE_KEY] = who.caller(scope)
    caller = authentication.caller_of(scope)
    return before, caller.client, caller.key_name, authentication.client_of(scope)


def test_catalogs_are_cut_and_shown_as_before() -> None:
    routes = (
        Route("m", ("a", "b"), 4096, 1, batch=4),
        Route("n", (), 0, 2),
        Route("e", ("a2",), 512, 3, embeds=True),
    )
    lines = []
    for models in ((), ("m",), ("m", "e"), ("z",)):
        caller = Caller("c", AccessKey("k", (), models=models))
        catalog = authentication.catalog_for(caller, Models(*routes))
        lines.append(f"{told(models)}: {model_list.all_models(catalog, {}).decode()}")
        names = ("", "a", "a2", "n", "z", "m")
        lines += [
            f"  {name}: {short(outcome(model_list.one_model, catalog, {'name': name}), 100)}"
            for name in names
        ]
    for count in (0, 1, 2, 20, 21, 40):
        catalog = Models(*(Route(f"m{at}", (), 1, 1) for at in range(count)))
        lines.append(f"only of {count}: {short(outcome(model_list.only_model, catalog), 200)}")
    lines.append(f"one with aliases: {model_list.only_model(Models(routes[0]))}")
    lines.append(
        f"without a key: {told(list(authentication.catalog_for(Caller('c'), Models(*routes)).names()))}"
    )
    compare(FOLDER / "models.txt", lines)


# --- bodies -------------------------------------------------------------------------------------------

_OF_LIBRARIES = re.compile(r"(says it is: )(?!it )[^\[]*")


def packed(name: str, data: bytes) -> bytes:
    if name == "zstd":
        return bytes(zstd.compress(data))
    if name == "raw":
        packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush()
    return gzip.compress(data, mtime=0) if name == "gzip" else zlib.compress(data)


def test_codings_are_named_as_before() -> None:
    given = (
        "", "gzip", "GZIP , deflate", "x-gzip", "identity", "identity,gzip", ",,", "br", "gzip,br", "gzip,gzip,gzip",
        "zstd,gzip,gzip,gzip", "a" * 120,
    )  # fmt: skip
    lines = [f"{short(value, 30)}: {short(outcome(codings.codings_of, value), 130)}" for value in given]
    compare(FOLDER / "codings_named.txt", lines)


async def test_codings_are_decoded_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codings, "STEP_BYTES", 64)
    monkeypatch.setattr(codings, "MEMBERS_MAX", 3)
    rng, lines = Random("codings"), []
    word = rng.randbytes(300)
    bodies: dict[str, tuple[list[str], bytes]] = {}
    for kind, coding in (
        ("gzip", "gzip"),
        ("gzip", "x-gzip"),
        ("deflate", "deflate"),
        ("raw", "deflate"),
        ("zstd", "zstd"),
    ):
        whole = packed(kind, word)
        bodies |= {
            f"{kind} {coding}": ([coding], whole),
            f"{kind} {coding} short": ([coding], packed(kind, b"x")),
            f"{kind} {coding} cut": ([coding], whole[:-9]),
            f"{kind} {coding} empty": ([coding], packed(kind, b"")),
            f"{kind} {coding} large": ([coding], packed(kind, bytes(2000))),
            f"{kind} {coding} three": ([coding], packed(kind, word[:50]) * 3),
            f"{kind} {coding} four": ([coding], packed(kind, word[:50]) * 4),
            f"{kind} {coding} and more": ([coding], whole + b"not coded"),
        }
    bodies |= {
        "none": ([], b"x"),
        "nothing": (["gzip"], b""),
        "no gzip": (["gzip"], b"hello world, this is no gzip"),
        "two": (["deflate", "gzip"], packed("gzip", packed("deflate", word))),
        "two in the wrong order": (["gzip", "deflate"], packed("gzip", packed("deflate", word))),
    }
    for name, (given, body) in bodies.items():
        for most in (1, 299, 300, 1999, 2000):
            try:
                out = await codings.decoded(body, given, most)
                text = f"{len(out)} {digest(out)}"
            except ApiError as error:
                text = _OF_LIBRARIES.sub(r"\1… ", refused(error))
            if most in (300, 2000) or ("413" in text[:3] and "large" in name):
                lines.append(f"{name} of {most}: {short(text, 90)}")
    compare(FOLDER / "codings.txt", lines)


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, 4, -1, 2.0, 2.5, 3.5, 2**63 - 1, 2**64 - 1, "", "a", "b", "zz", [], {}, {"x": 1}, [{"x": 1}, 5], [[1], None, "s", {"y": 2}],
)  # fmt: skip


def test_fields_are_read_as_before() -> None:
    lines = []
    for value in VALUES:
        fields = Fields({"f": value}, "at[0]")
        found = {
            "flag": outcome(fields.flag, "f"), "flag on": outcome(fields.flag, "f", True), "number": outcome(fields.number, "f", 9.0, 1.0, 3.0),
            "integer": outcome(fields.integer, "f", 9, 1, 3), "open": outcome(fields.integer, "f", 9, 1), "text": outcome(fields.text, "f"),
            "optional": outcome(fields.optional_text, "f"), "id": outcome(fields.id, "f"), "choice": outcome(fields.choice, "f", ("a", "b")),
            "object": outcome(object_of, fields), "objects": outcome(objects_of, fields), "written": outcome(fields.written, value, "p"),
            "entries": outcome(entries_of, fields) if isinstance(value, list) else "-",
        }  # fmt: skip
        lines += [
            f"{told(value)} {name}: {text}"
            for name, text in found.items()
            if name in ("flag", "integer", "open", "id", "entries", "objects", "number")
        ]
        lines.append(f"{told(value)} others: {digest(list(found.values()))}")
    for levels in (62, 63, 64, 65):
        fields = Fields({"f": deep(levels)})
        lines.append(
            f"{levels} levels: {short(outcome(fields.plain), 60)} {short(outcome(fields.written, deep(levels), 'p'), 60)}"
        )
    fields = Fields({"a": 1, "b": None}, "")
    lines.append(
        f"names {told(fields.names())} {fields.lacks({'c'})} {fields.lacks({'b', 'c'})} {fields.lacks(set())} {fields.path('a')}"
    )
    compare(FOLDER / "fields.txt", lines)


def object_of(fields: Fields) -> Any:
    found = fields.object("f")
    return None if found is None else (found.plain(), found.path("x"))


def objects_of(fields: Fields) -> Any:
    return [(each.plain(), each.path("x")) for each in fields.objects("f")]


def entries_of(fields: Fields) -> Any:
    return [each if isinstance(each, str) else each.path("y") for each in fields.entries("f")]


def test_replaced_content_is_counted_as_before() -> None:
    heads = [
        Head(()),
        Head(((b"a", b"b"),), (Replaced("images", 1),)),
        Head((), tuple(Replaced(f"k{'abcdefghij'[at % 10]}{'abcde'[at // 10]}", at) for at in range(40))),
    ]
    told_by = [
        [], [(0, Accepted("", ()))], [(1, Accepted("", (), replaced=(Replaced("audio", 5),)))],
        [(0, Accepted("", (), replaced=(Replaced("images", 2), Replaced("audio", 1)))), (1, Accepted("", (), replaced=(Replaced("audio", 9),)))],
        [(0, Accepted("", (), replaced=(Replaced("Bad Kind", 2), Replaced("a" * 41, 1), Replaced("b" * 40, 1))))],
    ]  # fmt: skip
    lines = [
        f"{at}: {short(told(head.after(pieces).lines()), 150)}"
        for at, head in enumerate(heads)
        for pieces in told_by
    ]
    compare(FOLDER / "replaced.txt", lines)


# --- hooks, records, metrics --------------------------------------------------------------------------


def test_signatures_are_checked_as_before() -> None:
    body, now, lines = b'{"ref":"x"}', 1_700_000_000.0, []
    plain, standard = "a secret of the team", "whsec_" + base64.b64encode(b"standard secret").decode()

    def signed(key: bytes, content: bytes) -> bytes:
        return hmac.new(key, content, hashlib.sha256).digest()

    good = signed(plain.encode(), body).hex()
    for name in (
        "x-hub-signature-256",
        "x-forgejo-signature",
        "x-gitea-signature",
        "x-signature",
        "x-gitlab-token",
        "webhook-signature",
    ):
        values = (good, f"sha256={good}", good.upper(), good[:-1], "", plain, f"{plain} ", "\udcff")
        known = [sent_by_who_knows(plain, {name: value}, body, now) for value in values]
        lines.append(f"{name}: {told(known)}")
    for moment in (0, 299, 300, 301, -300, -301):
        at = str(int(now) - moment)
        proof = "v1," + base64.b64encode(signed(b"standard secret", f"id.{at}.".encode() + body)).decode()
        for value, headers in (
            (proof, {}), (f"v1,x {proof}", {}), (f"{proof} v1,x", {}), (proof[3:], {}), (proof, {"webhook-id": "other"}),
            (proof, {"webhook-timestamp": ""}), (proof, {"webhook-timestamp": "x"}), (proof, {"webhook-timestamp": "٣"}),
            (proof, {"webhook-timestamp": "1" * 13}),
        ):  # fmt: skip
            given = {"webhook-id": "id", "webhook-timestamp": at, "webhook-signature": value, **headers}
            lines.append(
                f"{moment} {told(headers)}: {[sent_by_who_knows(secret, given, body, now) for secret in (standard, standard[6:], plain)]}"
            )
    both = {"x-hub-signature-256": "bad", "x-signature": good}
    lines.append(
        f"both: {sent_by_who_knows(plain, both, body, now)} none: {sent_by_who_knows(plain, {}, body, now)}"
    )
    compare(FOLDER / "signatures.txt", lines)


def test_lines_of_the_access_log_are_as_before() -> None:
    lines = []
    tallies: tuple[Tally | None, ...] = (
        None,
        Tally(0, 0, 0, None, "abort", ()),
        Tally(10, 4, 7, 0.12345678, "stop,length", ((0, 1), (2, 3))),
    )
    for tally, (error, status), first in itertools.product(
        tallies, (("", 200), ("overloaded", 503)), (None, 0.0000004, 1.23456789)
    ):
        entry = Entry(
            1_700_000_000.0 + (first or 0),
            "POST",
            "/v1/" + "x" * 300,
            "req_1",
            "key k",
            status,
            "m",
            received=5,
            sent=6,
        )
        entry.error, entry.runs = (
            error,
            None if tally is None else cast(Runs, SimpleNamespace(tally=partial(_same, tally))),
        )
        lines.append(entry.line(first, 2.00000049).decode().rstrip("\n").replace("x" * 252, "…"))
    compare(FOLDER / "access_lines.txt", lines)


def test_logs_are_rotated_as_before(tmp_path: Path) -> None:
    rng, now, lines = Random("rotation"), 1_700_000_000.0, []
    path = tmp_path / "logs" / "access.jsonl"
    file = RotatedFile(path, AccessLog(100, 3600.0, 3, 7200.0))
    for number in range(120):
        now += rng.choice((0, 1, 60, 1800, 3600, 3601, 7200, 9000, -200, -400))
        match rng.choice(("append",) * 5 + ("tidy", "fewer", "other", "batches")):
            case "append":
                size = rng.choice((1, 40, 60, 99, 100, 101))
                file.append(b"x" * size, now)
                os.utime(path, (now, now))
                text = f"append {size}"
            case "tidy":
                file.tidy(now)
                text = "tidy"
            case "fewer":
                file.bounds = dataclasses.replace(file.bounds, keep_files=rng.choice((1, 2, 3, 5)))
                text = f"keep {file.bounds.keep_files}"
            case "other":
                path.parent.mkdir(exist_ok=True)
                other = path.with_name(
                    rng.choice(("access.jsonl.0", "access.jsonl.x", "access.jsonl.12", "other.jsonl.1"))
                )
                other.write_bytes(b"?")
                os.utime(other, (now, now))
                text = f"write {other.name}"
            case _:
                sizes = [rng.choice((1, 40, 60, 61, 99, 100, 101)) for _ in range(rng.randint(0, 6))]
                text = f"batches of {sizes} {[[len(each) for each in batch] for batch in file.batches([b'x' * size for size in sizes])]}"
        there = sorted(path.parent.iterdir()) if path.parent.exists() else []
        shown = " ".join(
            f"{each.name.removeprefix('access.jsonl')}:{each.stat().st_size}@{each.stat().st_mtime - now:.0f}"
            for each in there
        )
        lines.append(f"{number}: {text} {shown}")
    file.bounds = AccessLog(100, 3600.0, 3, 7200.0)
    ends = [[40, 60], [40, 61], [99, 1, 1], [101, 100, 1], [100], [50, 50, 50, 50, 1]]
    cut = [
        [[len(each) for each in batch] for batch in file.batches([b"x" * size for size in sizes])]
        for sizes in ends
    ]
    lines.insert(0, f"cut: {cut}")
    compare(FOLDER / "rotation.txt", folded([short(line, 120) for line in lines], 50))


def measured(metrics: Metrics) -> list[str]:
    """The series that are not 0, without those of the process."""
    lines = [
        line for line in metrics.page().decode().splitlines() if line[0] != "#" and "_created" not in line
    ]
    shown = [
        line for line in lines if not line.startswith(("process_", "python_")) and not line.endswith(" 0.0")
    ]
    return [line.replace('model_name="', '"') for line in shown]


def test_requests_are_measured_as_before() -> None:
    rng, now = Random("measures"), 5000.0
    kept = KeptPrefixes(10, 20, 3, 4)
    metrics = Metrics(lambda: [("m", 0, 3, True, kept), ("m", 1, 2, False, None), ("n", 0, 1, True, None)])
    metrics.add(LostLines(lambda: 7))
    lines: list[str] = []
    running: list[Timeline] = []
    for number in range(260):
        now += rng.choice((0, 0.001, 0.005, 0.04, 0.25, 0.3, 1, 2.5, 10, 60))
        if len(running) < 2 or rng.random() < 0.15:
            running.append(metrics.begin(rng.choice("mmn"), now))
        each = rng.choice(running)
        match rng.choice(("event",) * 8 + ("wait", "give way", "end", "end")):
            case "wait":
                each.wait(now)
                text = "wait"
            case "give way":
                each.give_way(now)
                text = "give way"
            case "end":
                reason = rng.choice(("stop", "length", "tool_calls", "abort", "error", "repetition"))
                running.remove(each)
                each.end(reason, now)
                text = reason
            case _:
                event = rng.choice(
                    (
                        Accepted("", (1, 2, 3)), Accepted("", ()), Prefill("", 1, 3), Prefill("", 3, 3), Delta("", ()), Delta("", (1,)),
                        Delta("", (1, 2, 3)), Delta("", (4,)), ToolCall("", 0, "f", ""), Finished("", "stop", 5, 9, 2), Finished("", "stop", 3, 0),
                    )
                )  # fmt: skip
                each.on_event(event, now)
                text = short(told(event), 40)
        seen = (each.prompt_tokens, each.reading, each.cached_tokens, each.tokens, each.first_token)
        lines.append(f"{number}: {text} {told(seen)} {digest(metrics.figures())}")
    for handler, method, status in (
        ("/v1/models", "GET", 200),
        ("/v1/models", "GET", 299),
        ("other", "POST", 404),
        ("/v1/models", "GET", 503),
    ):
        metrics.answered(handler, method, status)
    shown = measured(metrics)
    buckets = [line for line in shown if "_bucket" in line]
    texts = [
        line
        for line in metrics.page().decode().splitlines()
        if line.startswith("# ") and not re.search("process_|python_|_created", line)
    ]
    compare(
        FOLDER / "measures.txt",
        [
            *folded(lines, 40),
            *(line for line in shown if "_bucket" not in line),
            *(
                f"buckets {line.split('{')[0]} {digest([other for other in buckets if other.split('{')[0] == line.split('{')[0]])}"
                for line in dict.fromkeys(line.split("{")[0] + "{" for line in buckets)
            ),
            f"texts {digest(texts)}",
            told(metrics.figures())[:100],
        ],
    )
