"""A bundle of a real controller, searched for secrets that were planted everywhere."""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.commands.support.support import LOG_BYTES, _rank_log
from reconciler.wire.admin import ReadRankLog
from reconciler.wire.launch import RankId
from tests.cli.conftest import Cli
from tests.cli.live import Live, live, manifest

PLANTED = "Zk3vQ9xW7bT1mN5cZk3vQ9xW7bT1mN5c"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        made.run("wait", "deployment/tiny", "--for=condition=Stalled", "--timeout=60s")
        yield made


def contents(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        members = ((member.name.partition("/")[2], archive.extractfile(member)) for member in archive)
        return {name: stream.read().decode() for name, stream in members if stream is not None}


@pytest.mark.second_tier
def test_a_bundle_has_what_helps_and_no_secret(cluster: Live, tmp_path: Path) -> None:
    secret = cluster.run("key", "create", "laptop").stdout.strip()
    cluster.apply(
        manifest("tiny").replace("name: tiny}", f"name: tiny, annotations: {{hub: hf_{PLANTED}}}}}")
    )
    (cluster.home / "logs").mkdir(exist_ok=True)
    with (cluster.home / "logs" / "controller.log").open("a") as log:
        log.write(f"ERROR asked with Authorization: Bearer {PLANTED}\nthe disk is full\n")
    file = tmp_path / "b.tar.gz"
    done = cluster.run("support", "-o", str(file), "--no-doctor")
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = contents(file)
    everything = "".join(found.values()) + done.stdout
    assert "the disk is full" in found["logs/controller.log"]
    assert '"kind": "ApiKey"' in found["objects.json"]
    assert any(name.startswith("manifests/") and "kind: ApiKey" in text for name, text in found.items())
    digest = cluster.run("get", "apikey/laptop", "-o", "jsonpath={.spec.hash}").stdout
    for planted in (secret, PLANTED, digest.partition(":")[2]):
        assert planted
        assert planted not in everything
    listed = {line.split()[1] for line in done.stdout.splitlines()[:-1]}
    assert listed == set(found) - {"CONTENTS.txt"} | {"logs/gateway.log"}
    assert "logs/gateway.log   not there: " in found["CONTENTS.txt"]


def test_without_a_controller_it_has_the_rest(cli: Cli, home: Path, tmp_path: Path) -> None:
    assert cli("init").code == 0
    done = cli("support", "-o", str(tmp_path))
    assert done.code == 0, done.err
    (file,) = tmp_path.glob("reconciler-support-*.tar.gz")
    assert "versions.json" in contents(file)
    assert f"controller   not there: no controller runs in {home}" in done.out


def test_a_secret_that_a_manifest_names_is_taken_out_whatever_it_looks_like(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word, variable = "plain words of mine", "other words of mine"
    (tmp_path / "url").write_text(f"{word}\r\n")
    monkeypatch.setenv("CHAT_HOOK", variable)
    assert cli("init").code == 0
    for name, place in {"one": f"{{file: {tmp_path / 'url'}}}", "two": "{env: CHAT_HOOK}"}.items():
        made = tmp_path / f"{name}.yaml"
        made.write_text(
            "apiVersion: reconciler/v1alpha1\nkind: Notifier\nmetadata:\n"
            f"  {{name: {name}}}\nspec:\n  webhook: {{urlFrom: {place}}}\n"
        )
        done = cli("apply", "-f", str(made))
        assert done.code == 0, done.err
    (home / "logs").mkdir(exist_ok=True)
    (home / "logs" / "controller.log").write_text(f"sent {word}, then {variable}; the disk is full\n")
    assert cli("support", "-o", str(tmp_path)).code == 0
    (file,) = tmp_path.glob("reconciler-support-*.tar.gz")
    assert contents(file)["logs/controller.log"] == "sent (removed), then (removed); the disk is full\n"


def test_a_log_whose_beginning_is_left_out_begins_with_a_whole_line(
    cli: Cli, home: Path, tmp_path: Path
) -> None:
    assert cli("init").code == 0
    (home / "logs").mkdir(exist_ok=True)
    rest = "\n" + "x " * (LOG_BYTES // 2 - 10) + "\nthe disk is full\n"
    (home / "logs" / "controller.log").write_text("password: plain words of mine" + rest)
    assert cli("support", "-o", str(tmp_path)).code == 0
    (file,) = tmp_path.glob("reconciler-support-*.tar.gz")
    found = contents(file)["logs/controller.log"]
    assert "mine" not in found
    assert found.endswith("the disk is full\n")


class Node:
    """Has the end of a rank's log. An older agent does not say where the text begins."""

    def __init__(self, content: bytes, begin: int | None) -> None:
        self._text = content.decode(errors="replace")
        self._begin = begin

    def ask(self, message: ReadRankLog) -> dict[str, Any]:
        return {"text": self._text, "offset": 10 * LOG_BYTES, "node": "a", "begin": self._begin}


@pytest.mark.parametrize(
    ("length", "begin", "whole"),
    [
        (LOG_BYTES, 0, True),
        (LOG_BYTES, 1, False),
        (LOG_BYTES - 6, 3, False),
        (100, None, True),
        (LOG_BYTES - 7, None, True),
        (LOG_BYTES - 6, None, False),
        (LOG_BYTES, None, False),
    ],
)
def test_a_rank_s_log_begins_with_a_whole_line(length: int, begin: int | None, whole: bool) -> None:
    """Of a log that is cut, up to three bytes of a character are left out at either end."""
    content = b"password: plain words of mine\n".ljust(length, b"x")
    node: Any = Node(content, begin)
    assert ("mine" in _rank_log(node, RankId("tiny", 0, 3, 0))) is whole


def test_a_whole_log_of_a_rank_has_its_first_line_whatever_its_bytes_are() -> None:
    node: Any = Node(b"one\n" + b"\xfc" * (LOG_BYTES // 2), 0)
    assert _rank_log(node, RankId("tiny", 0, 3, 0)).startswith("one\n")
