"""From the start of a rank to its end, as a controller sees it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from pathlib import Path

import pytest

from reconciler.errors import Refused
from reconciler.wire.launch import ExitCode, Phase, RankId, exit_reason
from reconciler.wire.node import ForgetRank, Gone, Log, ReadLog, StartRank, StopRank
from reconciler.wire.paths import shim_socket
from tests.agent.bench import (
    RANK,
    Bench,
    alive,
    ask,
    ended,
    exit_of,
    gone,
    in_phase,
    observe,
    program,
    pushed,
    rank,
)

pytestmark = pytest.mark.processes


async def test_a_rank_reports_its_phases_while_it_comes_up(bench: Bench) -> None:
    link = await bench.running("say('loading', loaded_bytes=5, total_bytes=10); sleep()", quick=True)

    loading = await in_phase(link, Phase.LOADING)

    assert (loading.loaded_bytes, loading.total_bytes) == (5, 10)
    assert loading.group == "wish"
    assert alive(loading.pid)
    assert alive(loading.shim_pid)


async def test_the_exit_status_of_a_rank_is_pushed_with_its_last_words(bench: Bench) -> None:
    link = await bench.running("say('rendezvous', detail='rank 1 did not come'); sys.exit(65)", quick=True)

    report = await ended(link)

    assert report.phase == Phase.EXITED
    assert report.exit is not None
    assert (report.exit.code, report.exit.signal) == (ExitCode.RENDEZVOUS, None)
    assert report.exit.detail == "rank 1 did not come"
    assert exit_reason(report.exit) == "RendezvousFailed"


async def test_the_signal_that_killed_a_rank_is_pushed_to_every_controller(bench: Bench) -> None:
    links = [await bench.quick_agent(), await bench.controller()]
    await bench.start(links[0], "say('ready'); sleep()")
    ready = await in_phase(links[0], Phase.READY)
    assert ready.pid is not None

    os.kill(ready.pid, signal.SIGKILL)

    for link in links:
        report = await ended(link)
        assert report.exit is not None
        assert (report.exit.code, report.exit.signal) == (None, signal.SIGKILL)


async def test_a_rank_that_dies_without_a_word_is_explained_by_its_last_line(bench: Bench) -> None:
    link = await bench.running("import not_there", quick=True)

    end = await exit_of(link)
    assert end.code == ExitCode.UNEXPECTED
    assert end.detail == "ModuleNotFoundError: No module named 'not_there'"


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        ("2026-11-28T18:24:06.235Z ready", ""),
        (
            "libc++abi: terminating due to uncaught exception",
            "libc++abi: terminating due to uncaught exception",
        ),
    ],
    ids=["a record of its log", "words of its own"],
)
async def test_a_record_of_its_log_is_not_taken_for_the_reason_of_a_crash(
    bench: Bench, words: str, detail: str
) -> None:
    link = await bench.running(
        f"print({words!r}, flush=True)\nimport os\nos.kill(os.getpid(), 11)", quick=True
    )

    end = await exit_of(link)
    assert (end.signal, end.detail) == (signal.SIGSEGV, detail)


@pytest.mark.parametrize(
    ("words", "metal"),
    [("[METAL] Command buffer execution failed: timeout", True), ("Assertion failed", False)],
)
async def test_a_rank_that_aborts_is_told_from_one_that_aborts_over_metal(
    bench: Bench, words: str, metal: bool
) -> None:
    link = await bench.running(f"print({words!r}, flush=True)\nimport os\nos.abort()", quick=True)

    end = await exit_of(link)
    assert (end.signal, end.metal) == (signal.SIGABRT, metal)


async def test_a_rank_that_is_killed_has_no_last_word(bench: Bench) -> None:
    link, ready = await bench.ready("print('all is well', flush=True)\nsay('ready')\nsleep()", quick=True)
    assert ready.pid is not None

    os.kill(ready.pid, signal.SIGKILL)

    end = await exit_of(link)
    assert (end.signal, end.detail) == (signal.SIGKILL, "")


async def test_a_program_that_cannot_be_started_is_an_exit_with_status_127(bench: Bench) -> None:
    link = await bench.quick_agent()
    await ask(link, StartRank(1, bench.spec(["/no/such/python", "-m", "runner"])))

    end = await exit_of(link)
    assert end.code == 127
    assert end.detail == "cannot start /no/such/python: No such file or directory"


async def test_lines_that_are_no_progress_are_logged_and_change_nothing(bench: Bench) -> None:
    body = """
descriptor = int(os.environ["RECONCILER_PROGRESS_FD"])
for line in (b"what", b"[1]", b'{"phase": 3}', b'{"phase": "exited"}', b"[" * 5000, b"x" * 200_000):
    os.write(descriptor, line + bytes([10]))
say('ready', steps=7)
sleep()
"""
    link = await bench.running(body, quick=True)

    report = await in_phase(link, Phase.READY)

    assert report.steps == 7
    log = await ask(link, ReadLog(RANK, 100_000))
    assert log.text.count("[shim] not understood on the progress pipe") == 5


async def test_many_steps_are_pushed_as_few_changes(bench: Bench) -> None:
    link = await bench.quick_agent()
    before = (
        await bench.start(link, "say('ready')\nfor n in range(200): say('ready', steps=n+1)\nsleep()")
    ).sequence

    report = await pushed(link, lambda report: report.steps == 200)

    assert (await observe(link)).sequence - before < 50
    assert report.phase == Phase.READY


async def test_a_rank_is_asked_to_end_and_may_end_in_order(bench: Bench) -> None:
    link, _ = await bench.ready(
        "signal.signal(15, lambda *_: sys.exit(0)); say('ready'); sleep()", quick=True
    )

    await ask(link, StopRank(1, RANK, grace_seconds=60))

    end = await exit_of(link)
    assert end.code == ExitCode.OK


async def test_a_rank_that_ignores_the_request_is_killed_with_its_children(bench: Bench) -> None:
    body = """
signal.signal(15, signal.SIG_IGN)
child = os.fork()
if child: say('ready', detail=str(child))
time.sleep(600)
"""
    link = await bench.running(body, quick=True)
    child = int((await in_phase(link, Phase.READY)).detail)
    assert alive(child)

    await ask(link, StopRank(1, RANK, grace_seconds=0.2))

    end = await exit_of(link)
    assert end.signal == signal.SIGKILL
    await gone(child)


async def test_children_of_a_rank_do_not_outlive_it(bench: Bench) -> None:
    link = await bench.quick_agent()
    await bench.start(
        link, "child = os.fork()\nif child: say('ready', detail=str(child)); sys.exit(3)\ntime.sleep(600)"
    )

    report = await ended(link)

    await gone(int(report.detail))


async def test_asking_again_only_ever_brings_the_end_closer(bench: Bench) -> None:
    link, _ = await bench.ready(
        "signal.signal(15, signal.SIG_IGN); say('ready'); time.sleep(600)", quick=True
    )

    for grace in (600, 0.1, 600):
        await ask(link, StopRank(1, RANK, grace_seconds=grace))

    end = await exit_of(link)
    assert end.signal == signal.SIGKILL


async def test_a_stopped_process_is_continued_so_that_it_can_end(bench: Bench) -> None:
    link, ready = await bench.ready(
        "signal.signal(15, lambda *_: sys.exit(0)); say('ready'); sleep()", quick=True
    )
    pid = ready.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    await ask(link, StopRank(1, RANK, grace_seconds=60))

    end = await exit_of(link)
    assert end.code == 0


async def test_a_rank_may_be_asked_to_end_in_the_breath_that_starts_it(bench: Bench) -> None:
    link = await bench.quick_agent()
    spec = bench.spec(program("time.sleep(600)"))

    await asyncio.gather(ask(link, StartRank(1, spec)), ask(link, StopRank(1, RANK, grace_seconds=5)))

    end = await exit_of(link)
    assert end.signal == signal.SIGTERM


async def test_starting_a_rank_twice_starts_one_process(bench: Bench) -> None:
    link, first = await bench.ready(quick=True)

    await bench.start(link, "sys.exit(1)")

    assert (await rank(link)).pid == first.pid
    assert len((await observe(link)).ranks) == 1


async def test_a_rank_that_has_exited_is_not_started_again(bench: Bench) -> None:
    link = await bench.running("sys.exit(3)", quick=True)
    first = await pushed(link, lambda report: report.gone == Gone.YES)

    await bench.start(link, "sleep()")

    again = await rank(link)
    assert (again.exit, again.pid, again.gone) == (first.exit, first.pid, Gone.YES)


async def test_a_rank_finds_its_config_its_environment_and_its_directory(bench: Bench) -> None:
    link = await bench.quick_agent()
    body = """
config = json.load(open(os.environ["RECONCILER_RANK_CONFIG"]))
names = sorted(name for name in os.environ if name != "LC_CTYPE")
print(json.dumps([config["secret"], names, os.environ["MLX_RANK"], os.getcwd(), os.getsid(0) == os.getpid()]))
"""
    await ask(link, StartRank(1, bench.spec(program(body), MLX_RANK="0", HOME="/elsewhere")))
    await ended(link)

    log = await ask(link, ReadLog(RANK, 10_000))
    secret, names, mlx_rank, directory, leads_session = json.loads(log.text)
    assert (secret, mlx_rank, leads_session) == ("s3cret", "0", True)
    assert directory == str(bench.rank_directory())
    own = {"LANG", "LC_ALL", "MLX_RANK", "RECONCILER_PROGRESS_FD", "RECONCILER_RANK_CONFIG", "HOME"}
    assert own <= set(names) <= own | {"PATH", "TMPDIR", "USER"}


async def test_what_a_rank_prints_is_read_in_pieces_that_join(bench: Bench) -> None:
    link = await bench.running("print('ä' * 1000); print('on stderr', file=sys.stderr)", quick=True)
    await ended(link)

    text, offset = "", 0
    while piece := await ask(link, ReadLog(RANK, bytes_max=101, offset=offset)):
        assert isinstance(piece, Log)
        if not piece.text:
            break
        text, offset = text + piece.text, piece.offset

    assert sorted(text.split("\n")) == ["", "on stderr", "ä" * 1000]
    last = await ask(link, ReadLog(RANK, bytes_max=4))
    assert text.endswith(last.text)
    assert last.offset == offset


async def test_the_log_of_an_unknown_rank_is_refused(bench: Bench) -> None:
    link = await bench.quick_agent()

    with pytest.raises(Refused, match=r"no rank llama\.0\.1\.0") as refused:
        await ask(link, ReadLog(RANK, 100))

    assert refused.value.code == "NotFound"


async def test_only_a_rank_that_has_exited_can_be_forgotten(bench: Bench) -> None:
    link, _ = await bench.ready(quick=True)

    with pytest.raises(Refused) as refused:
        await ask(link, ForgetRank(1, RANK))

    assert refused.value.code == "Alive"
    assert alive((await rank(link)).pid)


async def test_a_forgotten_rank_leaves_nothing_behind(bench: Bench) -> None:
    link = await bench.running("open(json.load(open('config.json'))['socket'], 'w')", quick=True)
    await ended(link)

    await ask(link, ForgetRank(1, RANK))
    await ask(link, ForgetRank(1, RANK))

    assert (await observe(link)).ranks == ()
    assert list((bench.directory / "ranks").iterdir()) == []
    assert [path for path in bench.run_directory.iterdir() if not path.name.startswith("a-")] == []


async def test_a_shim_that_has_ended_leaves_no_socket(bench: Bench) -> None:
    link = await bench.running("say('ready'); sleep()", quick=True)
    socket = Path(shim_socket(str(bench.run_directory), RANK))
    ready = await in_phase(link, Phase.READY)
    assert socket.exists()
    os.kill(ready.pid or 0, signal.SIGKILL)
    await ended(link)
    await gone(ready.shim_pid)
    assert not socket.exists()


async def test_nobody_else_can_read_what_is_kept_or_open_a_socket(bench: Bench) -> None:
    await bench.ready()

    paths = [
        bench.directory,
        *bench.directory.rglob("*"),
        bench.run_directory,
        *bench.run_directory.iterdir(),
    ]

    assert len([path for path in paths if stat.S_ISSOCK(path.stat().st_mode)]) == 2
    assert {path for path in paths if path.stat().st_mode & 0o077} == set()


@pytest.mark.parametrize(
    "id", [RankId("../../etc", 0, 1, 0), RankId("", 0, 1, 0), RankId("a/b", 0, 1, 0), RankId("a", -1, 1, 0)]
)
async def test_an_id_that_would_leave_its_place_is_refused(bench: Bench, id: RankId) -> None:
    link = await bench.quick_agent()

    with pytest.raises(Refused) as refused:
        await ask(link, StartRank(1, bench.spec(program("pass"), id)))

    assert refused.value.code == "Invalid"
    assert (await observe(link)).ranks == ()
