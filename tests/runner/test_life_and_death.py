"""How groups form, and that every way to end one ends all of it, soon, with a status that says why."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reconciler.runner.group import control_channel
from reconciler.runner.model import adapter
from reconciler.runner.model.files import inspect
from reconciler.wire.codec import to_wire
from reconciler.wire.frames import encode
from reconciler.wire.generation import Accepted, Delta, Failed, Finished
from reconciler.wire.group import Join
from reconciler.wire.launch import ExitCode, Phase, RankConfig, RankEnd

from .conftest import change_json
from .ranks import READY_SECONDS, Rank, configs, connected, question, running, short_directory
from .sealing import call, sealed_call

PHASES = [Phase.STARTING, Phase.RENDEZVOUS, Phase.LOADING, Phase.WARM, Phase.READY]


def join_of(config: RankConfig, model: Path, **changes: object) -> bytes:
    mlx, mlx_lm = adapter.versions()
    join = Join(1, config.id.epoch, mlx, mlx_lm, inspect(str(model)).digest)
    return encode(to_wire(dataclasses.replace(join, **changes)))  # type: ignore[arg-type]


async def test_a_rank_killed_while_generating_ends_the_others(endless: Path) -> None:
    with running(endless, 4) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            client.send(question("a", "Tell me", tokens_max=400))
            while not isinstance(await client.next("a"), Delta):
                pass
            group.ranks[2].process.kill()
            codes = [await asyncio.to_thread(group.ranks[r].exit_code) for r in (0, 1, 3)]
    assert codes == [ExitCode.PEER_LOST] * 3


async def test_a_terminated_group_finishes_what_it_has_and_takes_nothing_new(endless: Path) -> None:
    with running(endless, 2, batch_max=1) as group:
        await asyncio.to_thread(group.ready)
        async with connected(group.socket) as client:
            with group.ranks[1].standing_still():
                for name in ("running", "queued"):
                    client.send(question(name, "Tell me", tokens_max=80))
                    assert isinstance(await client.next(name), Accepted)
                for rank in group.ranks:
                    os.kill(rank.process.pid, signal.SIGTERM)
                    os.kill(rank.process.pid, signal.SIGINT)
                await asyncio.to_thread(group.ranks[0].wait_for, Phase.DRAINING)
                late = await client.ask("late", "Tell me")
                assert isinstance(late.last, Failed)
                assert late.last.code == "draining"
            for name in ("running", "queued"):
                reply = await client.reply(name)
                assert isinstance(reply.last, Finished)
                assert reply.last.completion_tokens == 80
            codes = [await asyncio.to_thread(rank.exit_code) for rank in group.ranks]
    assert codes == [ExitCode.OK, ExitCode.OK]
    assert not Path(group.socket).exists()


def test_a_rank_leaves_no_compiled_code_that_one_killed_meanwhile_would_leave_by_halves(
    endless: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (config,) = configs(endless, tmp_path, 1)
    with Rank(config, tmp_path, variables={"TMPDIR": str(left)}) as rank:
        rank.wait_for(Phase.READY)
    assert list(left.iterdir()) == []


def test_an_idle_rank_ends_at_once_when_terminated_and_removes_a_stale_socket_at_its_start(
    endless: Path,
) -> None:
    with short_directory() as directory:
        (config,) = configs(endless, directory, 1)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(config.socket)
        with Rank(config, directory) as rank:
            rank.wait_for(Phase.READY)
            os.kill(rank.process.pid, signal.SIGTERM)
            assert rank.exit_code() == ExitCode.OK


async def test_a_rank_whose_shim_is_gone_ends_as_an_orphan_even_inside_a_collective_that_never_ends(
    endless: Path,
) -> None:
    with running(endless, 2) as group:
        await asyncio.to_thread(group.ready)
        leader, frozen = group.ranks
        async with connected(group.socket) as client:
            with frozen.standing_still():
                client.send(question("a", "Tell me", tokens_max=400))
                await asyncio.to_thread(leader.wait_until, lambda report: report.demand == 1)
                await asyncio.sleep(0.5)  # by now it waits for the other
                assert leader.process.stdin is not None
                leader.process.stdin.close()
                assert await asyncio.to_thread(leader.exit_code) == ExitCode.ORPHANED
            assert await asyncio.to_thread(frozen.exit_code) == ExitCode.PEER_LOST


def test_a_rank_that_holds_nothing_of_the_network_ends_without_the_clean_up_of_python() -> None:
    script = (
        "import atexit\nfrom reconciler.runner.rank import _exit_at_once\n"
        "atexit.register(print, 'cleaned up')\nprint('said')\n_exit_at_once(7)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (7, "said\n")


def test_a_follower_gives_up_when_nobody_welcomes_it(endless: Path) -> None:
    with short_directory() as directory:
        _, second = configs(endless, directory, 2, rendezvous_seconds=0.5)
    with pytest.raises(RankEnd, match="did not welcome") as end:
        control_channel.follow(second, Join(1, 1, "", "", ""))
    assert end.value.code == ExitCode.RENDEZVOUS


def test_a_control_port_is_for_one_rank_and_a_rank_terminated_before_it_is_ready_ends_at_once(
    endless: Path,
) -> None:
    with short_directory() as directory:
        first, _ = configs(endless, directory, 2)
        with Rank(first, directory) as waiting:
            call(first.control).close()
            with pytest.raises(RankEnd, match="cannot listen") as end:
                control_channel.lead(first, Join(0, 1, "", "", ""))
            assert end.value.code == ExitCode.PORT_IN_USE
            os.kill(waiting.process.pid, signal.SIGTERM)
            assert waiting.exit_code() == ExitCode.OK


def test_a_rank_that_is_told_to_end_has_done_so_whatever_the_interrupted_code_makes_of_it(
    copy: Path, tmp_path: Path
) -> None:
    """As lazy imports do, which turn every error within them into one of their own."""
    reached = tmp_path / "reached"
    change_json(copy / "config.json", model_file="own.py")
    (copy / "own.py").write_text(
        f"import pathlib, time\npathlib.Path({str(reached)!r}).touch()\n"
        "class Lazy(Exception):\n    pass\n"
        "try:\n    time.sleep(60)\nexcept Exception as error:\n    raise Lazy('no such module') from error\n"
    )
    with short_directory() as directory:
        (config,) = configs(copy, directory, 1, trust_remote_code=True)
        with Rank(config, directory) as rank:
            deadline = time.monotonic() + READY_SECONDS
            while not reached.exists():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(rank.process.pid, signal.SIGTERM)
            assert rank.exit_code() == ExitCode.OK


@pytest.mark.parametrize("closing", [True, False], ids=["dies", "hangs"])
def test_a_peer_that_dies_or_hangs_while_mlx_connects_does_not_leave_a_rank_waiting_for_ever(
    endless: Path, closing: bool
) -> None:
    with short_directory() as directory:
        # who hangs is waited for as long as that
        first, _ = configs(endless, directory, 2, rendezvous_seconds=60.0 if closing else 5.0)
        word = join_of(first, endless)
        with Rank(first, directory) as rank:
            peer = sealed_call(first.control, first.secret)
            peer.send(word)
            assert peer.next_frame()["problem"] == ""
            time.sleep(0.5)
            if closing:
                peer.close()
            code = rank.exit_code()
            peer.close()
            assert code == (ExitCode.PEER_LOST if closing else ExitCode.RENDEZVOUS)


def test_ranks_of_different_versions_refuse_to_form_a_group(endless: Path) -> None:
    with short_directory() as directory:
        first, _ = configs(endless, directory, 2)
        with Rank(first, directory) as rank:
            with contextlib.closing(sealed_call(first.control, first.secret)) as peer:
                peer.send(join_of(first, endless, mlx_lm="0.1"))
                assert "mlx-lm version" in peer.next_frame()["problem"]
            assert rank.exit_code() == ExitCode.UNEQUAL
            assert "mlx-lm version" in rank.last.detail
