"""The files of refused prompts and of the use of keys, which outlive the gateway, even one that is killed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import orjson
import pytest

from reconciler.gateway.files import write_state
from reconciler.gateway.keys.caller import Caller
from reconciler.gateway.keys.desk import Desk
from reconciler.gateway.keys.usage import Usage
from reconciler.gateway.state_file import UsageFile, read_prompts, read_usage, write_prompts
from reconciler.wire.keys import AccessKey
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.gateway.keys.running import Running

PROMPTS = tuple(
    QuarantinedPrompt("llama", digest, f"req-{digest}", "1 message", (EndedGroup(0, 1),), 1.0, 2.0)
    for digest in "ab"
)


def test_what_is_written_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write_prompts(path, PROMPTS[:1])
    write_prompts(path, PROMPTS)
    assert read_prompts(path) == PROMPTS
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_the_state_may_be_read_by_those_whom_the_umask_allows(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        assert write_state(tmp_path, {"version": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "gateway.json").stat().st_mode) == mode


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"version":1}'])
def test_a_file_that_is_not_valid_refuses_nobody(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "prompts.json"
    assert read_prompts(path) == (), "it is not there yet"
    path.write_bytes(text)
    assert read_prompts(path) == ()


def test_a_file_of_a_later_version_refuses_nobody(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write_prompts(path, PROMPTS)
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "version": 99}))
    assert read_prompts(path) == ()


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write_prompts(path, PROMPTS)
    (tmp_path / ".prompts.json.new").mkdir()
    write_prompts(path, ())
    assert read_prompts(path) == PROMPTS


@pytest.mark.parametrize("name", ["prompts.json", "usage.json"])
def test_a_file_is_complete_when_it_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, replace = tmp_path / name, Path.replace
    found: list[bytes] = []

    def noted(draft: Path, target: Path) -> Path:
        found.append(draft.read_bytes())
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", noted)
    if name == "prompts.json":
        write_prompts(path, PROMPTS)
    else:
        UsageFile(path, Desk(lambda: 1000.0, lambda: 1.0), known=True).save()
    assert found == [path.read_bytes()]
    assert orjson.loads(found[0])["version"]


async def test_the_file_follows_a_request_that_runs_alone(tmp_path: Path) -> None:
    path, desk, request = tmp_path / "usage.json", Desk(lambda: 1000.0, lambda: 1.0), Running()
    file = UsageFile(path, desk)
    caller = Caller("key agent", AccessKey("agent", ()))
    with await desk.admit(caller, (), 1, request):
        for tokens in (10, 500):
            request.so_far = Usage(3, tokens)
            file.save()
            assert [each.tokens for each in read_usage(path)] == [3 + tokens]
    file.save()
    written = path.stat()
    file.save()
    assert path.stat() == written, "nothing runs, and nothing has changed"
