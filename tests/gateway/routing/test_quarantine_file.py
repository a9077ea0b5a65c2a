"""The file of prompts that are refused, which outlives the gateway."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from reconciler.gateway.routing.quarantine_file import read, write
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt

PROMPTS = tuple(
    QuarantinedPrompt("llama", digest, f"req-{digest}", "1 message", (EndedGroup(0, 1),), 1.0, 2.0)
    for digest in "ab"
)


def test_what_is_written_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write(path, PROMPTS[:1])
    write(path, PROMPTS)
    assert read(path) == PROMPTS
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"version":1}'])
def test_a_file_that_is_not_valid_refuses_nobody(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "prompts.json"
    assert read(path) == (), "it is not there yet"
    path.write_bytes(text)
    assert read(path) == ()


def test_a_file_of_a_later_version_refuses_nobody(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write(path, PROMPTS)
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), "version": 99}))
    assert read(path) == ()


def test_a_disk_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    write(path, PROMPTS)
    (tmp_path / ".prompts.json.new").mkdir()
    write(path, ())
    assert read(path) == PROMPTS
