"""Artifacts that were fetched home: listed, copied and printed, with nothing from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.state.jobs import Artifacts, Fetched
from tests.cli.conftest import Cli, Controller
from tests.cli.jobs import answer, answers
from tests.status.jobs import record, run, succeeded

FILES = {"2/0/out/model.bin": b"\x00\x01", "2/0/log.txt": b"zero\n", "2/1/log.txt": b"one\n", "1/0/old": b"o"}


@pytest.fixture
def place(home: Path) -> Path:
    """Artifacts of two runs."""
    found = home / "artifacts" / "train"
    put(found, FILES)
    return found


def put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_those_of_the_newest_run_are_listed_without_a_controller(cli: Cli, place: Path) -> None:
    result = cli("artifacts", "job/train")
    assert (result.code, result.err) == (0, "")
    folder, _, *rows = result.out.splitlines()
    assert folder == str(place / "2")
    assert [row.split() for row in rows] == [
        ["0", "5B", "log.txt"],
        ["0", "2B", "out/model.bin"],
        ["1", "4B", "log.txt"],
    ]
    body = json.loads(cli("artifacts", "train", "--run", "1", "-o", "json").out)
    assert (body["run"], body["files"]) == (1, [{"rank": 0, "path": "old", "bytes": 1}])


def test_links_and_drafts_are_no_artifacts(cli: Cli, place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (place / "2" / "0" / "link").symlink_to(secret)
    (place / "2" / "1" / "folder").symlink_to(tmp_path)
    put(place, {"2/0/.part-0123": b"half"})
    assert len(json.loads(cli("artifacts", "job/train", "-o", "json").out)["files"]) == 3


def test_a_file_is_printed_as_it_is(cli: Cli, place: Path) -> None:
    assert cli("artifacts", "job/train", "--cat", "out/model.bin").out == "\x00\x01"
    assert cli("artifacts", "job/train", "--rank", "1", "--cat", "log.txt").out == "one\n"
    result = cli("artifacts", "job/train", "--cat", "log.txt")
    assert result.code == 2
    assert "ranks 0, 1 have log.txt; choose one, such as: --rank 0" in result.err
    assert "there is no artifact nothing" in cli("artifacts", "job/train", "--cat", "nothing").err


def test_they_are_copied_by_rank_and_replace_nothing_unasked(cli: Cli, place: Path, tmp_path: Path) -> None:
    result = cli("artifacts", "job/train", "--to", "results")
    assert (result.code, result.out) == (0, "copied 3 files, 11B, to results\n")
    there = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert there == {"results/0/out/model.bin", "results/0/log.txt", "results/1/log.txt"}
    (tmp_path / "results/1/log.txt").write_text("mine")
    result = cli("artifacts", "job/train", "--to", "results")
    assert result.code == 1
    assert "--force" in result.err
    assert (tmp_path / "results/1/log.txt").read_text() == "mine"
    assert cli("artifacts", "job/train", "--to", "results", "--force").code == 0
    assert (tmp_path / "results/1/log.txt").read_text() == "one\n"
    assert cli("artifacts", "job/train", "--rank", "1", "--to", "of-one").code == 0
    assert (tmp_path / "of-one/log.txt").read_text() == "one\n"


def test_none_is_told_with_the_reason(cli: Cli, controller: Controller, place: Path) -> None:
    pending = succeeded(3, artifacts=Artifacts(Fetched.PENDING))
    controller.answers["get"] = answers(answer(pending))
    assert "still being fetched" in cli("artifacts", "job/train", "--run", "3").err
    result = cli("artifacts", "job/train", "--run", "2", "--rank", "7")
    assert result.code == 1
    assert "those of ranks 0, 1 are there" in result.err
    controller.answers["get"] = answers(answer(succeeded(3)))
    assert "spec.artifacts names what is fetched" in cli("artifacts", "job/train", "--run", "3").err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("job/trian",), 'jobs "trian" not found; did you mean "train"?'),
        (("job/train", "--run", "7"), "job/train has no run 7 now; choose one of: 1"),
        (("job/train",), "run 1 of job/train has not ended, and artifacts are fetched then"),
    ],
)
def test_a_wrong_name_a_wrong_run_and_one_that_has_not_ended_are_told_apart(
    cli: Cli, controller: Controller, words: tuple[str, ...], text: str
) -> None:
    controller.answers["get"] = answers(answer(run(), group=record(epoch=1)))
    result = cli("artifacts", *words)
    assert result.code == 1
    assert text in result.err


def test_what_is_missing_is_noted(cli: Cli, controller: Controller, place: Path) -> None:
    partly = succeeded(2, artifacts=Artifacts(Fetched.PARTLY, 3, 11, "'a\\x1b' of rank 0: too long"))
    controller.answers["get"] = answers(answer(partly))
    result = cli("artifacts", "job/train")
    assert result.code == 0
    assert "note: not all were fetched: 'a\\x1b' of rank 0" in result.err
