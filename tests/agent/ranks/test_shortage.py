"""An agent that cannot start a rank because the system denies it something says what, and what to do about it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.wire.launch import RankId
from reconciler.wire.node import Done, Observe, StartRank
from reconciler.wire.shortage import ADVICE
from tests.agent.bench import Bench, ask, exit_of, gone, in_phase, observe, program
from tests.agent.ranks.machine import Machine, Watching, spec

pytestmark = [pytest.mark.processes, pytest.mark.needs("linux")]


def take_descriptors(pid: int, left: int = 0) -> None:
    """Leave a process so many descriptors for something new."""
    taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    free = [number for number in range(1024) if number not in taken]
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[left], most))


def give_descriptors(pid: int) -> None:
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))


@pytest.mark.parametrize("left", range(12))
async def test_an_agent_without_descriptors_tells_so_and_goes_on_when_it_has_some(
    bench: Bench, left: int
) -> None:
    link = await bench.agent()
    await observe(link)
    take_descriptors(bench.agent_pid(), left)

    refused = ""
    try:
        await ask(link, StartRank(1, bench.spec(program("say('ready'); sleep()"))))
    except Refused as error:
        refused = str(error)

    found = (await ask(link, Observe())).ranks
    if refused:  # what has a directory says why it never ran
        ends = [each.exit.detail for each in found if each.exit is not None]
        assert len(ends) == len(found)
        assert all(each.startswith("never started: ") for each in ends)
        assert all(ADVICE[errno.EMFILE] in each for each in (refused, *ends))
    give_descriptors(bench.agent_pid())
    other = RankId("llama", 0, 2, 0)
    assert isinstance(
        await ask(link, StartRank(1, bench.spec(program("say('ready'); sleep()"), other))), Done
    )
    await in_phase(link, "ready", other)


async def test_an_agent_without_descriptors_gives_way_to_another_and_its_ranks_go_on(bench: Bench) -> None:
    link = await bench.running("say('ready'); sleep()")
    before = await in_phase(link, "ready")
    old = bench.agent_pid()
    take_descriptors(old)
    for incarnation in (2, 3):
        another = bench.spec(program("say('ready'); sleep()"), RankId("llama", 0, incarnation, 0))
        with pytest.raises(Refused, match="as many files and connections open as it may"):
            await ask(link, StartRank(1, another))
    await gone(old)

    await bench.node().start_agent()

    link = await bench.controller()
    assert bench.agent_pid() != old
    other = RankId("llama", 0, 4, 0)
    await ask(link, StartRank(1, bench.spec(program("say('ready'); sleep()"), other)))
    await in_phase(link, "ready", other)
    (kept,) = (each for each in (await observe(link)).ranks if each.id == before.id)
    assert (kept.pid, kept.exit) == (before.pid, None)


async def test_a_descriptor_that_is_missing_now_and_then_ends_no_agent(bench: Bench) -> None:
    link = await bench.agent()
    old = bench.agent_pid()
    for incarnation in (1, 3, 5):
        take_descriptors(old)
        with pytest.raises(Refused, match="as many files and connections open as it may"):
            await ask(link, StartRank(1, bench.spec(program("sleep()"), RankId("llama", 0, incarnation, 0))))
        give_descriptors(old)
        await ask(link, StartRank(1, bench.spec(program("sleep()"), RankId("llama", 0, incarnation + 1, 0))))
    assert bench.agent_pid() == old


SMALL_DISK = """#!/bin/sh
exec unshare --mount --propagation private /bin/sh -c 'mount -t tmpfs -o size=256k none "$0" && exec "$@"' {folder} {python} "$@"
"""
"""A Python for which a folder is a disk of its own."""


@pytest.mark.needs("namespaces")
@pytest.mark.parametrize(
    ("spoil", "number"),
    [
        ("head -c 1000000 /dev/zero > {folder}/filled", errno.ENOSPC),
        ("mount -t tmpfs -o ro none {folder}/ranks", errno.EROFS),
    ],
)
async def test_an_agent_that_cannot_write_says_what_its_disk_lacks(
    bench: Bench, spoil: str, number: int
) -> None:
    bench.directory.mkdir()
    bench.python = bench.home / "python"
    bench.python.write_text(SMALL_DISK.format(folder=bench.directory, python=sys.executable))
    bench.python.chmod(0o755)
    await bench.node().start_agent()
    link = await bench.controller()
    pid = agent_in(bench.directory)
    spoil_disk(pid, spoil.format(folder=bench.directory))

    with pytest.raises(Refused) as refused:
        await ask(link, StartRank(1, bench.spec(program("say('ready'); sleep()"))))

    assert ADVICE[number] in str(refused.value)
    os.kill(pid, signal.SIGTERM)
    await gone(pid)


def agent_in(folder: Path) -> int:
    """The agent whose lock nobody outside of its mounts can see."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"serve" in words and os.fsencode(folder) in words:
                return int(path.parent.name)
    raise AssertionError("no agent runs")


def spoil_disk(pid: int, command: str) -> None:
    """Do something to the disk of an agent. Who fills a disk is told of an error."""
    words = ["nsenter", "--target", str(pid), "--mount", "--root", "/bin/sh", "-c", command]
    subprocess.run(words, capture_output=True, check=False)


@pytest.mark.parametrize("number", sorted(ADVICE))
async def test_whatever_keeps_a_shim_from_starting_is_the_end_of_the_rank(number: int) -> None:
    machine = Machine()
    watching = Watching(machine)
    machine.cannot_start = OSError(number, "as the system says it")

    with pytest.raises(OSError, match="as the system says it"):
        watching.ranks.start(spec())

    exit = watching.report.exit
    assert exit is not None
    assert exit.detail == f"never started: [Errno {number}] as the system says it; {ADVICE[number]}"


async def test_a_rank_that_may_not_open_a_file_ends_with_the_advice(bench: Bench) -> None:
    link = await bench.agent()
    await bench.start(
        link,
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\n"
        "kept = [open('/dev/null') for _ in range(9)]",
    )
    end = await exit_of(link)
    assert end.detail.startswith("OSError: [Errno 24] Too many open files: '/dev/null'; the process has")


async def test_a_program_that_may_not_be_run_ends_its_rank_with_the_advice(
    bench: Bench, tmp_path: Path
) -> None:
    link = await bench.agent()
    denied = tmp_path / "python"
    denied.write_text("#!/bin/sh\n")
    await ask(link, StartRank(1, bench.spec((str(denied),))))
    end = await exit_of(link)
    assert end.detail.startswith(f"cannot start {denied}: Permission denied; this user may not do that")
