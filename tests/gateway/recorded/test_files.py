"""What the gateway makes of its files: routes, quarantined prompts, the use of keys; valid, spoiled, older and missing.

``UPDATE_GOLDEN=1 .venv/bin/python -m pytest -n 0 tests/gateway/recorded`` writes the files again. Read each line of the
difference: a line that nobody meant to change is a fault.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from reconciler.gateway.files import cannot_listen, write_state
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.usage import Usage
from reconciler.gateway.routing.routes import RoutesFile, parse_routes
from reconciler.gateway.state_file import UsageFile, read_prompts, read_usage, write_prompts
from reconciler.wire import SPOKEN
from reconciler.wire.codec import WireError, to_wire
from reconciler.wire.gateway import HookSecret
from reconciler.wire.generation import Route, Routes
from reconciler.wire.keys import AccessKey, KeysUsage, KeyUsage, SecretHash
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt, QuarantinedPrompts
from tests.recorded import compare

from .telling import FOLDER, short, told
from .test_keys import Running

PLAIN = Routes(SPOKEN[-1], 1, "127.0.0.1:1", 30.0)
PROMPT = QuarantinedPrompt("m", "d", "r", "1 message", (EndedGroup(0, 1),), 5.0, 6.0)
USED = KeyUsage("k", 20_000, 30, 2, 7)
_OF_LIBRARIES = re.compile(
    r"(not JSON: |counts of all keys begin anew: |no prompt is quarantined: )(?!version|a |[a-z]+ is).*"
)


def spoiled(value: Any) -> list[bytes]:
    """A file as it should be, and as it should not."""
    good = orjson.dumps(to_wire(value))
    older = orjson.dumps(to_wire(dataclasses.replace(value, version=-1)))
    return [good, older, b"", b"{", b"[]", b"{}", b"5", good[:-1], good.replace(b'"version"', b'"verzion"')]


def said(caplog: pytest.LogCaptureFixture, folder: Path) -> str:
    texts = [record.getMessage().replace(str(folder), "…") for record in caplog.records]
    caplog.clear()
    return short(told([_OF_LIBRARIES.sub(r"\1…", text) for text in texts]), 120)


def test_routes_are_read_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = []
    for text in spoiled(PLAIN):
        try:
            lines.append(f"parsed {told(parse_routes(text))}")
        except WireError as error:
            lines.append(f"refused {_OF_LIBRARIES.sub(chr(92) + '1…', str(error))}")
    one, two = Route("m", ("a", "n", "m"), 10, 1), Route("n", ("a", "b"), 10, 1)
    key = AccessKey("k", (SecretHash("h"),))
    versions = (
        dataclasses.replace(
            PLAIN, token=5, routes=(one, two), hosts=("h",), hook=HookSecret(env="E"), origins=("o",)
        ),
        dataclasses.replace(PLAIN, token=4, routes=(two,)),
        dataclasses.replace(PLAIN, token=5, routes=(two,), auth="keys", keys=(key,), keep_alive="comment"),
        dataclasses.replace(PLAIN, token=6, routes=()),
    )
    file = RoutesFile(tmp_path / "routes.json")
    steps: list[tuple[str, bytes | None]] = [("missing", None)]
    steps += [(f"version {at}", orjson.dumps(to_wire(version))) for at, version in enumerate(versions)]
    steps[2:2] = [("spoiled", b"{"), ("empty", b"")]
    for name, content in steps:
        if content is not None:
            (tmp_path / "draft").write_bytes(content)
            (tmp_path / "draft").replace(tmp_path / "routes.json")
        new = [file.refresh(), file.refresh()]
        shown = (
            file.current.hosts,
            file.current.hook,
            file.current.origins,
            file.comments,
            list(file.models()),
            [(each, route.model) for each, route in file.names().items()],
        )
        found = [route.model if (route := file.find(each)) else None for each in ("m", "n", "a", "b", "z")]
        ring = None if file.ring is None else list(file.ring.keys)
        lines.append(f"{name}: {told(new)} {told(shown)} {told(found)} {told(ring)} {said(caplog, tmp_path)}")
    compare(FOLDER / "files_routes.txt", lines)


def test_files_of_state_are_read_and_written_as_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines, path = [], tmp_path / "state.json"
    for name, read, value in (
        ("prompts", read_prompts, QuarantinedPrompts(SPOKEN[-1], (PROMPT,))),
        ("usage", read_usage, KeysUsage(SPOKEN[-1], (USED,))),
    ):
        lines.append(f"{name} missing: {told(read(tmp_path / 'none'))} {said(caplog, tmp_path)}")
        for at, text in enumerate(spoiled(value)):
            path.write_bytes(text)
            lines.append(f"{name} {at}: {told(read(path))} {said(caplog, tmp_path)}")
    path.unlink()
    write_prompts(path, iter([PROMPT]))
    lines.append(f"written: {path.read_text().strip()} {stat.S_IMODE(path.stat().st_mode):o}")
    write_prompts(tmp_path / "no" / "state.json", ())
    lines.append(f"no folder: {said(caplog, tmp_path)}")
    for state in ({"a": 1}, {"a": 1}, {"a": 2}):
        before = (tmp_path / "gateway.json").stat().st_mtime_ns if (tmp_path / "gateway.json").exists() else 0
        done = write_state(tmp_path, dict(state))
        changed = (tmp_path / "gateway.json").stat().st_mtime_ns != before
        lines.append(
            f"state: {done} {changed if before else '-'} {(tmp_path / 'gateway.json').read_text().strip()}"
        )
    lines.append(f"state without a folder: {write_state(tmp_path / 'no', {})} {said(caplog, tmp_path)}")
    lines.append(told({**cannot_listen("in use"), "pid": 0}))
    compare(FOLDER / "files_state.txt", lines)


async def test_files_of_use_are_kept_as_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    lines, path = [], tmp_path / "usage.json"
    path.write_bytes(orjson.dumps(to_wire(KeysUsage(SPOKEN[-1], (USED,)))))
    key = AccessKey("k", ())
    for known in (False, True):
        desk = Desk(lambda: 20_000 * 86_400.0 + 5, lambda: 10.0)
        file = UsageFile(path, desk, known=known)
        for step in ("at rest", "seen", "at rest", "running", "running", "over", "at rest"):
            path.unlink(missing_ok=True)
            if step == "seen":
                desk.seen(Caller("c", key))
            if step == "running" and not desk.busy:
                ticket = await desk.admit(Caller("c", key), [], 1, Running(Usage(3, 4)))
            if step == "over":
                ticket.__exit__(None, None, None)
            file.save()
            shown = path.read_text().strip() if path.exists() else "not written"
            lines.append(f"{known} {step}: {shown}")
        path.write_bytes(b"{")
    compare(FOLDER / "files_of_use.txt", lines)
