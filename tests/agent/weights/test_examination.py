"""What a node's runtime says of a model is asked once for each state of its folder, and again where it gives no answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.agent.weights.examination import Examiner
from reconciler.wire.node import ModelReport
from reconciler.wire.weights import PromptReuse, RankShare


class Runtime:
    """A runtime that notes whenever it is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.waiting: Callable[[Mapping[str, Any]], None] | None = None

    def prepare(self) -> None:
        raise AssertionError("an examiner asks at once")

    def prepared(self) -> None:
        raise AssertionError("an examiner is asked at once")

    def examine(self, folder: str, seconds: float, on_answer: Callable[[Mapping[str, Any]], None]) -> None:
        assert self.waiting is None, "one folder at a time"
        self.count += 1
        self.seconds = seconds
        self.waiting = on_answer

    def answer(self, **answer: Any) -> None:
        on_answer, self.waiting = self.waiting, None
        assert on_answer is not None
        on_answer(answer)


class Desk:
    """An examiner of one model."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "model"
        self.folder.mkdir()
        (self.folder / "model.safetensors").write_bytes(b"weights")
        self.runtime = Runtime()
        self.news = 0
        self.now = 0.0
        self.examiner = Examiner(self.runtime, self._hear, lambda: self.now)

    def _hear(self) -> None:
        self.news += 1

    def look(self) -> ModelReport:
        return self.examiner.complete(ModelReport("model", str(self.folder), present=True))

    def answer(self, **answer: Any) -> ModelReport:
        """What is reported once all questions are answered."""
        while self.look().examining:
            self.runtime.answer(**answer)
        return self.look()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_state_of_a_folder_is_asked_about_once(desk: Desk) -> None:
    assert desk.look().examining
    assert desk.answer(code="some").code == "some"
    for _ in range(3):
        assert not desk.look().examining
    assert (desk.runtime.count, desk.news) == (1, 1)


@pytest.mark.parametrize(
    ("present", "problem"), [(False, ""), (True, "a file is damaged"), (False, "no such model")]
)
def test_weights_that_are_not_all_there_or_have_a_problem_are_not_asked_about(
    desk: Desk, present: bool, problem: str
) -> None:
    report = ModelReport("model", str(desk.folder), present=present, problem=problem)
    assert desk.examiner.complete(report) == report
    assert desk.runtime.count == 0


def test_how_prompts_can_be_reused_is_reported_as_the_runtime_says_it(desk: Desk) -> None:
    found = desk.answer(reuse=PromptReuse.NONE, reread="they are kept nowhere")
    assert (found.reuse, found.reread) == ("none", "they are kept nowhere")


def test_the_kinds_by_which_positions_can_be_scaled_are_reported(desk: Desk) -> None:
    assert desk.answer(rope=["yarn", "linear"]).rope == ("yarn", "linear")


def test_an_examination_that_failed_is_told_and_says_nothing_against_the_weights(desk: Desk) -> None:
    before = time.time()
    found = desk.answer(unanswered="it took longer than 120 s")
    assert (found.examining, found.problem, found.code, found.ranks_tried) == (False, "", "", 0)
    assert (found.reuse, found.reread, found.rope) == ("", "", ())
    failed = found.examination
    assert failed is not None
    assert (failed.text, failed.attempts) == ("it took longer than 120 s", 1)
    assert before <= failed.since <= time.time()
    assert failed.again == pytest.approx(failed.since + 30, abs=1)
    desk.look()
    assert desk.runtime.count == 1, "not before it is due"


def test_an_examination_that_failed_is_repeated_after_longer_waits_and_may_take_longer(desk: Desk) -> None:
    first = desk.answer(unanswered="it crashed").examination
    allowed, waits = [desk.runtime.seconds], []
    for _ in range(7):
        begun = desk.now
        while desk.runtime.waiting is None:
            assert not desk.look().examining, "weights can be used meanwhile"
            desk.now += 5
        waits.append(desk.now - 5 - begun)
        allowed.append(desk.runtime.seconds)
        assert desk.look().examination is not None, "it is not known to be better yet"
        desk.runtime.answer(unanswered="it crashed")
    assert waits == [30, 60, 120, 300, 600, 1800, 1800]
    assert allowed == [120, 240, 480, 600, 600, 600, 600, 600]
    last = desk.look().examination
    assert first is not None
    assert last is not None
    assert (last.attempts, last.since) == (8, first.since)


def test_an_examination_that_succeeds_in_the_end_says_everything(desk: Desk) -> None:
    desk.answer(unanswered="its process was ended by signal 9 (SIGKILL)")
    desk.now += 30
    desk.look()
    desk.runtime.answer(code="some")
    found = desk.look()
    assert (found.code, found.examination, found.examining) == ("some", None, False)
    desk.now += 86_400
    desk.look()
    assert desk.runtime.count == 2


def test_files_that_change_are_examined_at_once_whatever_failed_before(desk: Desk) -> None:
    desk.answer(unanswered="it crashed")
    (desk.folder / "model.safetensors").write_bytes(b"other")
    assert desk.look().examining
    assert desk.runtime.seconds == 120
    assert desk.answer(code="some").code == "some"


def test_while_weights_arrive_only_their_last_state_is_asked_about_in_the_end(desk: Desk) -> None:
    for size in range(20):
        (desk.folder / "model.safetensors").write_bytes(b"w" * size)
        assert desk.look().examining
    desk.answer()
    assert desk.runtime.count == 2, "the first, which was being asked about already, and the last"


def test_nothing_is_asked_after_the_agents_end(desk: Desk) -> None:
    desk.look()
    (desk.folder / "model.safetensors").write_bytes(b"other")
    desk.look()
    desk.examiner.close()
    desk.runtime.answer(code="some")
    assert (desk.runtime.count, desk.news) == (1, 0)


@pytest.mark.parametrize("name", ["train.log", ".DS_Store", ".model.safetensors.part", "events.out.1"])
def test_what_no_runtime_reads_does_not_keep_a_model_from_being_used(desk: Desk, name: str) -> None:
    desk.answer()
    (desk.folder / name).write_text("something else goes on here")
    assert not desk.look().examining
    (desk.folder / "tokenizer.json").write_text("{}")
    assert desk.look().examining
    desk.answer()


@pytest.mark.parametrize(
    ("shares", "known"),
    [
        (
            {"tensor/2": [{"weights_bytes": 5, "cache": [[0, 4]]}]},
            {"tensor/2": (RankShare(5, ((0, 4),)),)},
        ),
        ({"tensor/2": [{"weights_bytes": 5}], "new": "1"}, {}),
        ({"tensor/2": [{"weights_bytes": 5.5}]}, {}),
        (7, {}),
    ],
)
def test_what_ranks_hold_is_reported_as_the_runtime_says_it_and_nothing_of_what_is_no_answer(
    desk: Desk, shares: Any, known: dict[str, tuple[RankShare, ...]]
) -> None:
    assert desk.answer(shares=shares).shares == known


def test_a_folder_that_is_gone_since_it_was_found_is_a_problem(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.folder / "model.safetensors").unlink()
    desk.folder.rmdir()
    report = desk.look()
    assert report.path == "model"
    assert "No such file or directory" in report.problem
    assert (desk.runtime.count, report.examining) == (0, False)
