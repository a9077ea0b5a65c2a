"""The fetcher against a hub that misbehaves: what comes is whole and verified, or it is no weights."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from reconciler.agent.weights.files import Weights
from reconciler.fetcher import fetch as fetching
from reconciler.fetcher import folder
from reconciler.fetcher.problems import Unfetched
from reconciler.fetcher.progress import ProgressReport
from reconciler.wire.codec import from_wire
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import (
    RECORD_NAME,
    SPARE_BYTES,
    FetchJob,
    FetchProblem,
    FetchSource,
    FileReport,
    FileState,
    Progress,
    hub_path,
    partial_folder,
)

from .conftest import SHARDS, repository
from .hub import COMMIT, REPO, Fault, Hub

FIRST, SECOND = SHARDS
SERVED = {"config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors.index.json", *SHARDS}


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "TRY_SECONDS", 0.0)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def fetch(
    hub: Hub, place: Path, thorough: bool = False, code: bool = False, only: tuple[str, ...] | None = None
) -> tuple[FileReport, ...]:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        source = FetchSource(REPO, COMMIT, hub.endpoint, code)
        return fetching.fetch(FetchJob(str(place), source, thorough, only=only), ProgressReport(nowhere))
    finally:
        os.close(nowhere)


def seen(place: Path) -> ModelReport:
    """What the agent says of the folder."""
    return Weights(place.parents[2]).report(str(place.relative_to(place.parents[2])))


def problem(hub: Hub, place: Path) -> tuple[str, str]:
    """Why there are no weights; there must be none then."""
    with pytest.raises(Unfetched) as caught:
        fetch(hub, place)
    assert not place.exists()
    return caught.value.problem, str(caught.value)


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def test_what_serving_needs_is_fetched_and_nothing_else(hub: Hub, place: Path) -> None:
    fetch(hub, place)
    assert names(place) == SERVED | {RECORD_NAME}
    assert {name: (place / name).read_bytes() for name in SERVED} == {
        name: content for name, content in repository().items() if name in SERVED
    }
    assert not partial_folder(place).exists()


def test_code_is_fetched_only_where_it_is_trusted(hub: Hub, place: Path) -> None:
    fetch(hub, place, code=True)
    assert names(place) == SERVED | {RECORD_NAME, "modeling_evil.py"}


def test_what_is_there_is_neither_fetched_nor_read_again(
    hub: Hub, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(hub, place)
    requests = dict(hub.requests)
    monkeypatch.setattr(folder, "PIECE_BYTES", -1)  # reading would fail
    monkeypatch.setattr(fetching, "is_right", None)
    fetch(hub, place)
    assert dict(hub.requests) == requests


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub: Hub, place: Path) -> None:
    hub.faults[FIRST] = Fault(cut_after=300_000, times=1)
    fetch(hub, place)
    assert hub.requests[FIRST] == 2
    assert hub.sent[FIRST] < len(repository()[FIRST]) + 256 * 1024  # of one piece


def test_a_hub_that_is_gone_in_the_middle_leaves_what_came(hub: Hub, place: Path) -> None:
    hub.faults[SECOND] = Fault(status=503)
    assert problem(hub, place)[0] == FetchProblem.UNREACHABLE
    assert FIRST in names(partial_folder(place))
    hub.faults.clear()
    fetch(hub, place)
    assert hub.requests[FIRST] == 1


def test_a_file_that_ends_early_is_no_weights(hub: Hub, place: Path) -> None:
    hub.faults[FIRST] = Fault(short_by=1000)
    found, text = problem(hub, place)
    assert (found, text) == (FetchProblem.TRUNCATED, f"{FIRST} of {REPO} ended before its last byte")
    hub.faults.clear()
    fetch(hub, place)
    assert hub.sent[FIRST] < 2 * len(repository()[FIRST])  # it went on from there


def test_wrong_bytes_are_fetched_again_and_given_up_in_the_end(hub: Hub, place: Path) -> None:
    hub.faults[FIRST] = Fault(wrong=True, times=1)
    fetch(hub, place)
    assert hub.requests[FIRST] == 2
    assert (place / FIRST).read_bytes() == repository()[FIRST]


def test_bytes_that_are_always_wrong_are_no_weights(hub: Hub, place: Path) -> None:
    hub.faults[SECOND] = Fault(wrong=True)
    found, text = problem(hub, place)
    assert found == FetchProblem.CORRUPTED
    assert SECOND in text
    assert hub.requests[SECOND] == fetching.ATTEMPTS_MAX
    assert SECOND not in names(partial_folder(place))


def test_a_small_file_is_compared_by_the_id_that_git_gives_it(hub: Hub, place: Path) -> None:
    hub.faults["config.json"] = Fault(wrong=True)
    assert problem(hub, place)[0] == FetchProblem.CORRUPTED


def test_no_token_where_one_is_needed(hub: Hub, place: Path) -> None:
    hub.token = "hf_right"
    found, text = problem(hub, place)
    assert found == FetchProblem.UNAUTHORIZED
    assert "no token was given" in text


def test_a_wrong_token_is_not_repeated(hub: Hub, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    hub.token = "hf_right"
    found, text = problem(hub, place)
    assert found == FetchProblem.UNAUTHORIZED
    assert "hf_wrong" not in text
    assert hub.tokens == {"hf_wrong"}


def test_a_gated_repository(hub: Hub, place: Path) -> None:
    hub.gated = True
    found, text = problem(hub, place)
    assert found == FetchProblem.FORBIDDEN
    assert "accept the terms of org/tiny" in text


def test_a_repository_or_a_commit_that_is_not_there(hub: Hub, place: Path) -> None:
    hub.files = {(REPO, "f" * 40): {}}
    assert problem(hub, place) == (
        FetchProblem.NOT_FOUND,
        f"{hub.endpoint} has no commit c0ffee1111 in org/tiny, or shows it only with a permitted token",
    )
    hub.files = {}
    assert problem(hub, place)[0] == FetchProblem.NOT_FOUND


def test_nobody_listens(hub: Hub, place: Path) -> None:
    hub.endpoint = "http://127.0.0.1:9"
    assert problem(hub, place) == (FetchProblem.UNREACHABLE, "no connection to http://127.0.0.1:9")


def test_a_repository_without_weights_that_can_be_served(hub: Hub, place: Path) -> None:
    hub.add({"config.json": b"{}", "pytorch_model.bin": b"x"})
    found, text = problem(hub, place)
    assert found == FetchProblem.NOT_SERVABLE
    assert "no model*.safetensors" in text


def test_a_disk_without_room_is_noticed_before_it_is_full(
    hub: Hub, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 0, 10**9))
    found, text = problem(hub, place)
    assert found == FetchProblem.DISK_FULL
    assert text.startswith("1.2 MB are still to be fetched, and 1.1 GB must stay free")
    assert hub.requests[FIRST] == 0


def test_a_damaged_file_is_fetched_again_alone(hub: Hub, place: Path) -> None:
    fetch(hub, place)
    status = (place / SECOND).stat()
    with (place / SECOND).open("r+b") as file:
        file.seek(100_000)
        file.write(b"rot")
    os.utime(place / SECOND, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a disk does it
    hub.requests.clear()
    fetch(hub, place)
    assert hub.requests == {}  # nobody would notice
    found = {file.name: file.state for file in fetch(hub, place, thorough=True)}
    assert found == {name: "fetched again" if name == SECOND else "verified" for name in SERVED}
    assert hub.requests == {SECOND: 1}
    assert (place / SECOND).read_bytes() == repository()[SECOND]


def test_a_file_that_is_gone_is_fetched_again_alone(hub: Hub, place: Path) -> None:
    fetch(hub, place)
    (place / FIRST).unlink()
    hub.requests.clear()
    fetch(hub, place)
    assert hub.requests == {FIRST: 1}


def test_weights_that_have_changed_since_are_none(hub: Hub, tmp_path: Path) -> None:
    path = hub_path(REPO, COMMIT)
    place = tmp_path / path
    fetch(hub, place)
    report = Weights(tmp_path).report(path)
    assert (report.verified, report.problem) == (True, "")
    (place / "tokenizer.json").write_text("[]")
    report = Weights(tmp_path).report(path)
    assert (report.verified, report.problem) == (False, "tokenizer.json has changed since it was verified")


def test_a_folder_that_nobody_has_verified_is_none(tmp_path: Path) -> None:
    path = hub_path(REPO, COMMIT)
    (tmp_path / path).mkdir(parents=True)
    for name, content in repository().items():
        if name in SERVED:
            (tmp_path / path / name).write_bytes(content)
    report = Weights(tmp_path).report(path)
    assert (report.verified, report.problem) == (False, f"{RECORD_NAME} is missing")


def test_progress_counts_bytes_and_a_slow_hub_shows_in_the_rate(hub: Hub, place: Path) -> None:
    hub.faults[FIRST] = Fault(bytes_per_second=400_000)
    out, writing = os.pipe()
    fetching.fetch(FetchJob(str(place), FetchSource(REPO, COMMIT, hub.endpoint)), ProgressReport(writing))
    os.close(writing)
    with os.fdopen(out) as lines:
        updates = [from_wire(Progress, json.loads(line)) for line in lines]
    total = sum(len(content) for name, content in repository().items() if name in SERVED)
    assert {progress.total_bytes for progress in updates} == {total}
    done = [progress.done_bytes for progress in updates]
    assert done == sorted(done)
    assert any(0 < progress.rate < 500_000 for progress in updates if progress.file == FIRST)


def test_of_a_file_that_is_not_needed_only_an_outline_comes(hub: Hub, place: Path) -> None:
    fetch(hub, place, only=(SECOND,))
    assert hub.requests[FIRST] == 0
    assert hub.outlined == {FIRST: 1}
    assert names(place) == SERVED | {RECORD_NAME}
    content, outline = repository()[FIRST], (place / FIRST).stat()
    assert outline.st_size == len(content)
    assert outline.st_blocks * 512 < 100_000
    assert content.startswith((place / FIRST).read_bytes().rstrip(b"\0"))
    assert (place / SECOND).read_bytes() == repository()[SECOND]
    report = seen(place)
    assert (report.verified, report.problem, report.lacking) == (True, "", (FIRST,))
    assert report.weights_bytes == len(content) + len(repository()[SECOND])


def test_what_is_needed_later_comes_to_what_is_there_and_in_use(hub: Hub, place: Path) -> None:
    fetch(hub, place, only=(SECOND,))
    inode = place.stat().st_ino
    hub.requests.clear()
    hub.faults[FIRST] = Fault(cut_after=200_000, times=1)
    fetch(hub, place, only=(FIRST,))
    assert (seen(place).verified, seen(place).lacking, place.stat().st_ino) == (True, (), inode)
    assert set(hub.requests) == {FIRST}
    assert (place / FIRST).read_bytes() == repository()[FIRST]


def test_what_is_damaged_of_a_part_comes_again_and_what_is_not_needed_stays_away(
    hub: Hub, place: Path
) -> None:
    fetch(hub, place, only=(SECOND,))
    status = (place / SECOND).stat()
    (place / SECOND).write_bytes(repository()[SECOND][:-1] + b"?")
    os.utime(place / SECOND, ns=(status.st_atime_ns, status.st_mtime_ns))
    hub.requests.clear()
    states = {each.name: each.state for each in fetch(hub, place, thorough=True, only=())}
    assert (states[FIRST], states[SECOND]) == (FileState.OUTLINED, FileState.FETCHED)
    assert set(hub.requests) == {SECOND}
    assert seen(place).lacking == (FIRST,)


def test_of_a_part_the_disk_needs_room_for_that_part(
    hub: Hub, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    free = SPARE_BYTES + 700_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(free, 0, free))
    fetch(hub, place, only=(SECOND,))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(free, 0, free - 200_000))
    with pytest.raises(Unfetched, match="are still to be fetched"):
        fetch(hub, place, only=(FIRST,))
    assert seen(place).verified


def test_a_header_that_does_not_describe_its_file_is_no_outline(hub: Hub, place: Path) -> None:
    files = repository()
    hub.add({**files, FIRST: files[FIRST] + b"more"})
    with pytest.raises(Unfetched) as caught:
        fetch(hub, place, only=())
    assert caught.value.problem == FetchProblem.CORRUPTED
