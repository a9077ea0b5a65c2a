"""A rank that is started before anybody knows which one it is to be."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path

import pytest

from reconciler.runner import standby
from reconciler.runner.standby import wait_for_config
from reconciler.wire.launch import CONFIG_LATER, CONFIG_VARIABLE, ExitCode, Phase

from .ranks import Rank, configs, connected, short_directory


@pytest.mark.needs("linux")
def test_spares_that_are_told_who_they_are_form_a_group_and_answer(tiny: Path) -> None:
    with short_directory() as directory:
        first, second = configs(tiny, directory, 2)
        with Rank(first, directory, spare=True) as leader, Rank(second, directory, spare=True) as follower:
            leader.begin()
            follower.begin()
            for rank in (leader, follower):
                rank.wait_for(Phase.READY)
                assert Path(f"/proc/{rank.process.pid}/cwd").resolve() == directory.resolve()
            assert len(asyncio.run(answer_tokens(first.socket))) == 3


async def answer_tokens(socket: str) -> list[int]:
    async with connected(socket) as client:
        return (await client.ask("one", "Count from 1 to 100.", tokens_max=3)).tokens


def test_a_spare_that_nobody_needs_ends_without_a_word(tiny: Path) -> None:
    with short_directory() as directory:
        (config,) = configs(tiny, directory, 1)
        with Rank(config, directory, spare=True) as rank:
            assert rank.process.stdin is not None
            rank.process.stdin.close()
            assert rank.exit_code() == ExitCode.OK
            assert rank.reports == []


def started_anew(rank: Rank) -> bool:
    """Whether its process has begun as this rank, and not as a spare: the kernel shows the variables of the start."""
    variables = Path(f"/proc/{rank.process.pid}/environ").read_bytes().split(b"\0")
    return f"{CONFIG_VARIABLE}={CONFIG_LATER}".encode() not in variables


@pytest.mark.second_tier
@pytest.mark.parametrize("case", ["its own weights", "other weights", "fast synch"])
@pytest.mark.needs("linux")
def test_a_spare_that_has_examined_weights_serves_them_and_begins_anew_for_anything_else(
    tiny: Path, endless: Path, case: str
) -> None:
    with short_directory() as directory:
        (config,) = configs(tiny, directory, 1)
        with Rank(
            dataclasses.replace(config, fast_synch=case == "fast synch"), directory, spare=True
        ) as rank:
            answer = rank.examine(endless if case == "other weights" else tiny)
            assert answer["ranks_tried"] == 8
            assert answer["shares"].keys() >= {"tensor/1", "tensor/2"}
            assert not rank.reports, "nothing of it looks like a rank's progress"
            rank.begin()
            rank.wait_for(Phase.READY)
            assert started_anew(rank) == (case != "its own weights")
            assert len(asyncio.run(answer_tokens(config.socket))) == 3


def test_a_spare_that_has_examined_weights_does_not_become_a_rank_whose_config_cannot_be_read(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.json"
    assert standby._may_serve(str(config), set()), "it has read nothing of any model"
    assert not standby._may_serve(str(config), {"/models/tiny"})
    config.write_text("{}")
    assert not standby._may_serve(str(config), {"/models/tiny"})


def test_what_is_printed_while_weights_are_examined_is_in_no_log(capfd: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        os.write(number, b"before ")
    with standby._silent():
        for number in (1, 2):
            os.write(number, b"meanwhile ")
    for number in (1, 2):
        os.write(number, b"after")
    assert capfd.readouterr() == ("before after",) * 2


def test_what_a_former_spare_starts_is_known_by_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv(CONFIG_VARIABLE, "-")
    reading, writing = os.pipe()
    config = tmp_path / "config.json"
    os.write(writing, os.fsencode(config) + b"\n")
    os.close(writing)
    assert wait_for_config(reading, -1) == str(config)
    os.close(reading)
    assert os.environ[CONFIG_VARIABLE] == str(config)
    assert Path.cwd() == tmp_path.resolve()
