"""What a node's runtime says of a model is asked once for each state of its folder, and no more than that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reconciler.agent.weights.examination import Examiner
from reconciler.wire.node import ModelReport, RankShare

SECONDS = 60.0


class Desk:
    """An examiner of one model, and an interpreter that notes whenever it is asked and answers when it may."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "model"
        self.folder.mkdir()
        (self.folder / "model.safetensors").write_bytes(b"weights")
        self.examinations = path / "asked"
        self.examinations.touch()
        self.may = path / "may"
        python = self.python = path / "python"
        python.write_text(
            f"#!/bin/sh\necho $3 >> {self.examinations}\n"
            f'until test -e {self.may}; do sleep 0.02; done\necho \'{{"code": "some"}}\'\n'
        )
        python.chmod(0o700)
        self.answered = asyncio.Event()
        self.examiner = Examiner(str(python), path, self.answered.set)

    def look(self) -> ModelReport:
        return self.examiner.complete(ModelReport("model", str(self.folder), present=True))

    async def answer(self) -> ModelReport:
        """What is reported once all questions are answered."""
        self.may.touch()
        async with asyncio.timeout(SECONDS):
            while self.look().examining:
                self.answered.clear()
                await self.answered.wait()
        return self.look()

    def count(self) -> int:
        return len(self.examinations.read_text().splitlines())


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_state_of_a_folder_is_asked_about_once(desk: Desk) -> None:
    assert desk.look().examining
    assert (await desk.answer()).code == "some"
    for _ in range(3):
        assert not desk.look().examining
    assert desk.count() == 1


async def test_while_weights_arrive_only_their_last_state_is_asked_about_in_the_end(desk: Desk) -> None:
    for size in range(20):
        (desk.folder / "model.safetensors").write_bytes(b"w" * size)
        assert desk.look().examining
    await desk.answer()
    assert desk.count() == 2, "the first, which was being asked about already, and the last"


@pytest.mark.parametrize("name", ["train.log", ".DS_Store", ".model.safetensors.part", "events.out.1"])
async def test_what_no_runtime_reads_does_not_keep_a_model_from_being_used(desk: Desk, name: str) -> None:
    desk.look()
    await desk.answer()
    (desk.folder / name).write_text("something else goes on here")
    assert not desk.look().examining
    (desk.folder / "tokenizer.json").write_text("{}")
    assert desk.look().examining
    await desk.answer()


@pytest.mark.parametrize(
    ("shares", "known"),
    [
        ('{"tensor/2": [{"weights_bytes": 5, "cache": [[0, 4]]}]}', {"tensor/2": (RankShare(5, ((0, 4),)),)}),
        ('{"tensor/2": [{"weights_bytes": 5}], "new": "1"}', {}),
        ('{"tensor/2": [{"weights_bytes": 5.5}]}', {}),
        ("7", {}),
    ],
)
async def test_what_ranks_hold_is_reported_as_the_runtime_says_it_and_nothing_of_what_is_no_answer(
    desk: Desk, shares: str, known: dict[str, tuple[RankShare, ...]]
) -> None:
    desk.python.write_text(f"#!/bin/sh\necho '{{\"shares\": {shares}}}'\n")
    desk.look()
    assert (await desk.answer()).shares == known
