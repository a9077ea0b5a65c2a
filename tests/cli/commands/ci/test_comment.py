"""The comment of a pull request: one, written anew in place, and nobody else's is touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.commands.ci.comment import AUTHORS, MARK, PART_CHARACTERS_MAX, composed
from tests.cli.conftest import Cli
from tests.forge import TOKEN, Forge, forge


@pytest.fixture
def review(tmp_path: Path) -> Path:
    """What the steps before have found out."""
    folder = tmp_path / "review"
    folder.mkdir()
    (folder / "validation.txt").write_text("modeldeployment/tiny valid\n")
    (folder / "plan.txt").write_text("+ modeldeployment/tiny: form tiny/0\n")
    (folder / "rehearsal.md").write_text("| step | result |\n|---|---|\n| kill a rank | ok |\n")
    return folder


@pytest.fixture
def made() -> Iterator[Forge]:
    with forge() as running:
        yield running


@pytest.fixture
def step(made: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a step; the path of its event."""
    event = tmp_path / "event.json"
    write_event(event, made.number, made.repository)
    for name, value in {
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": made.repository,
        "GITHUB_API_URL": made.api,
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_TOKEN": TOKEN,
    }.items():
        monkeypatch.setenv(name, value)
    return event


def write_event(path: Path, number: int, head: str | None) -> None:
    pull: dict[str, Any] = {"number": number, "head": {"repo": head and {"full_name": head}}}
    path.write_text(json.dumps({"pull_request": pull}))


@pytest.mark.usefixtures("step")
def test_the_comment_is_written_once_and_then_anew_in_place(cli: Cli, made: Forge, review: Path) -> None:
    made.add("nice change", "ada")
    assert cli("ci", "comment", str(review)).code == 0
    (review / "plan.txt").write_text("nothing to do\n")
    result = cli("ci", "comment", str(review))
    assert result.out == "the comment of pull request 7 is written\n"
    assert [each["body"].splitlines()[0] for each in made.comments] == ["nice change", MARK]
    assert "nothing to do" in made.comments[1]["body"]
    assert "form tiny/0" not in made.comments[1]["body"]


@pytest.mark.usefixtures("step")
def test_it_is_found_on_a_later_page(cli: Cli, made: Forge, review: Path) -> None:
    for number in range(120):
        made.add(f"comment {number}", "ada")
    made.add(f"{MARK}\nold")
    assert cli("ci", "comment", str(review)).code == 0
    assert len(made.comments) == 121
    assert "form tiny/0" in made.comments[-1]["body"]


@pytest.mark.usefixtures("step")
def test_a_comment_of_somebody_else_with_the_same_first_line_stays(
    cli: Cli, made: Forge, review: Path
) -> None:
    made.add(f"{MARK}\nmine", "mallory")
    assert cli("ci", "comment", str(review)).code == 0
    assert [each["user"]["login"] for each in made.comments] == ["mallory", AUTHORS[0]]
    assert made.comments[0]["body"] == f"{MARK}\nmine"


def test_a_fork_gets_the_summary_of_the_job_and_nothing_is_asked_of_the_forge(
    cli: Cli, made: Forge, review: Path, step: Path, tmp_path: Path
) -> None:
    for head in ("mallory/cluster", None):
        write_event(step, made.number, head)
        result = cli("ci", "comment", str(review))
        assert result.code == 0
        assert "no comment on pull request 7, because it comes from a fork" in result.out
    assert made.calls == []
    assert "form tiny/0" in (tmp_path / "summary.md").read_text()


@pytest.mark.usefixtures("step")
def test_a_token_that_may_not_write_is_told_what_it_needs(cli: Cli, made: Forge, review: Path) -> None:
    made.writable = False
    result = cli("ci", "comment", str(review))
    assert result.code == 1
    assert (
        "it answered with 403: Resource not accessible by integration; the job needs permissions:"
        in result.err
    )
    assert TOKEN not in result.err


def test_outside_of_a_workflow_it_is_printed(cli: Cli, review: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_EVENT_PATH", raising=False)
    result = cli("ci", "comment", str(review))
    assert result.code == 1
    assert "this is no step of a pull request's workflow" in result.err
    assert cli("ci", "comment", str(review), "--print").out == composed(review)


def test_what_was_not_reached_is_said_and_marks_in_a_plan_stay_text(tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("! ```\n<img src=x>\n````\n")
    (tmp_path / "validation.txt").write_text("x" * (PART_CHARACTERS_MAX + 1))
    text = composed(tmp_path)
    assert "`````text\n! ```\n<img src=x>\n````\n`````" in text
    assert "not reached: see the log of the step before" in text
    assert len(text) < 65_536 / 2
