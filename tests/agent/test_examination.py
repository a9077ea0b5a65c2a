"""How an agent has its runtime examine models: once for each state of a folder, and never in anybody's way."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from reconciler.agent.examination import Examiner
from reconciler.agent.weights import Weights
from reconciler.wire.node import ModelReport

TINY = Path(__file__).parents[2] / "examples" / "models" / "tiny"
COUNTING = """#!/bin/sh
echo "$@" >> {folder}/asked
{answer}
"""


class Asked:
    """An examiner whose interpreter is a script that counts how often it is run."""

    def __init__(self, folder: Path, answer: str) -> None:
        self.folder = folder
        self.heard = asyncio.Event()
        script = folder / "python"
        script.write_text(COUNTING.format(folder=folder, answer=answer))
        script.chmod(0o700)
        self.examiner = Examiner(str(script), folder, self.heard.set)
        self.weights = Weights(folder)
        shutil.copytree(TINY, folder / "tiny")

    def report(self) -> ModelReport:
        return self.examiner.complete(self.weights.report("tiny"))

    async def answer(self) -> ModelReport:
        assert self.report().examining
        await asyncio.wait_for(self.heard.wait(), 30)
        self.heard.clear()
        return self.report()

    def times(self) -> int:
        return len((self.folder / "asked").read_text().splitlines())


async def test_the_runtime_says_what_it_can_do_with_a_model(tmp_path: Path) -> None:
    asked = Asked(tmp_path, f'exec {sys.executable} "$@"')
    report = await asked.answer()
    assert (report.problem, report.code, report.ranks_tried, report.examining) == ("", "", 8, False)
    assert report.unsplittable["pipeline"] == "mlx-lm cannot run qwen3 models as a pipeline"


async def test_each_state_of_a_folder_is_examined_once(tmp_path: Path) -> None:
    asked = Asked(tmp_path, 'echo \'{"problem": "none of my business"}\'')
    assert (await asked.answer()).problem == "none of my business"
    assert [asked.report().examining for _ in range(3)] == [False] * 3
    assert asked.times() == 1
    os.utime(tmp_path / "tiny" / "tokenizer.json")
    await asked.answer()
    assert asked.times() == 2


async def test_what_the_agent_finds_damaged_itself_is_not_examined(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "echo {}")
    (tmp_path / "tiny" / "config.json").unlink()
    assert asked.report().problem == "config.json is missing"
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("answer", ["exit 1", "echo nonsense", "echo '[]'", "kill -9 $$"])
async def test_an_examination_without_an_answer_keeps_no_model_from_being_tried(
    tmp_path: Path, answer: str
) -> None:
    report = await Asked(tmp_path, answer).answer()
    assert (report.problem, report.code, report.unsplittable, report.ranks_tried) == ("", "", {}, 0)


async def test_an_agent_that_ends_leaves_no_examination_behind(tmp_path: Path) -> None:
    asked = Asked(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    assert asked.report().examining
    for _ in range(1500):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            break
        await asyncio.sleep(0.02)
    asked.examiner.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
