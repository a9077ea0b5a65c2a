"""What agents do for jobs: records, secrets, output and artifacts."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.agent.ranks import artifacts
from reconciler.errors import Refused
from reconciler.wire.launch import ExitCode, JobFile, exit_reason
from reconciler.wire.node import (
    ArtifactPiece,
    Artifacts,
    ForgetRank,
    ListArtifacts,
    ReadArtifact,
    ReadLog,
    StartRank,
    StopRank,
)
from tests.agent.bench import Bench, alive, ask, ended, gone, in_phase, observe, rank, until
from tests.agent.ranks.jobs import JOB, run, spec, work
from tests.launcher.ranks import LIMITS, job, script

pytestmark = pytest.mark.processes

MIB = 1 << 20


async def test_the_end_of_a_program_is_told_from_the_launchers_own(bench: Bench) -> None:
    _, report = await run(bench, "raise SystemExit(65)")

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.RENDEZVOUS, True)
    assert exit_reason(report.exit) == "ProgramFailed"


async def test_a_launcher_that_cannot_read_its_config_says_so(bench: Bench) -> None:
    link = await bench.quick_agent()
    await ask(link, StartRank(1, spec(replace(script(""), grace_seconds=-1.0))))

    report = await ended(link, JOB)

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.CONFIG, False)
    assert "grace_seconds is below 0" in report.exit.detail


async def test_a_stopped_job_has_the_signal_of_its_program(bench: Bench) -> None:
    link = await bench.quick_agent()
    await ask(link, StartRank(1, spec(script("import time\ntime.sleep(600)"))))
    await in_phase(link, "ready", JOB)

    await ask(link, StopRank(1, JOB, grace_seconds=30))

    report = await ended(link, JOB)
    assert report.exit is not None
    assert (report.exit.signal, report.exit.program) == (signal.SIGTERM, True)


async def test_secrets_are_on_disk_only_while_the_rank_runs(bench: Bench) -> None:
    link = await bench.quick_agent()
    of = script(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)", secrets={"TOKEN": "hunter-2"}
    )
    await ask(link, StartRank(1, spec(of)))
    await in_phase(link, "ready", JOB)
    kept = [path for path in bench.home.rglob("*") if path.is_file() and b"hunter-2" in path.read_bytes()]
    assert {path.name for path in kept} == {"spec.json", "config.json"}
    assert {path.stat().st_mode & 0o077 for path in kept} == {0}
    await until((work(bench)).exists)
    (work(bench) / "go").touch()

    await ended(link, JOB)

    assert [p for p in bench.home.rglob("*") if p.is_file() and b"hunter-2" in p.read_bytes()] == []


async def test_secrets_of_a_rank_that_ended_without_an_agent_are_removed(bench: Bench) -> None:
    link = await bench.agent()
    body = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    await ask(link, StartRank(1, spec(script(body, secrets={"TOKEN": "hunter-2"}))))
    await in_phase(link, "ready", JOB)
    await until(work(bench).exists)
    await bench.kill_agent()
    (work(bench) / "go").touch()
    await until(lambda: '"exit":{' in (bench.rank_directory(JOB) / "state.json").read_text())

    await ended(await bench.agent(), JOB)

    assert "hunter-2" not in (bench.rank_directory(JOB) / "spec.json").read_text()
    assert "hunter-2" not in (bench.rank_directory(JOB) / "config.json").read_text()


async def test_a_record_outlives_output_files_and_working_directory(bench: Bench) -> None:
    data = base64.b64encode(b"content of a file" * 1000).decode()
    link, before = await run(bench, "open('result', 'w').write('1')\nraise SystemExit(3)", env={"A": "1"})

    await ask(link, ForgetRank(1, JOB, keep_record=True))
    await ask(link, ForgetRank(1, JOB, keep_record=True))

    directory = bench.rank_directory(JOB)
    assert sorted(path.name for path in directory.iterdir()) == ["process.json", "spec.json", "state.json"]
    assert json.loads((directory / "spec.json").read_text())["config"]["job"]["files"] == []
    assert data not in (directory / "spec.json").read_text()
    await until(lambda: sorted(path.name for path in (bench.directory / "ranks").iterdir()) == [str(JOB)])
    after = await rank(link, JOB)
    assert (after.exit, after.group, after.size, after.started_at) == (
        before.exit,
        "wish",
        1,
        before.started_at,
    )
    assert (await ask(link, ReadLog(JOB, 100))).text == ""

    await ask(link, ForgetRank(1, JOB))

    assert (await observe(link)).ranks == ()
    assert list((bench.directory / "ranks").iterdir()) == []


async def test_a_record_is_reported_by_the_next_agent(bench: Bench) -> None:
    link = await bench.agent()
    await ask(link, StartRank(1, spec(script("raise SystemExit(3)"))))
    before = await ended(link, JOB)
    await ask(link, ForgetRank(1, JOB, keep_record=True))
    await bench.kill_agent()

    after = await rank(await bench.agent(), JOB)

    assert (after.exit, after.group) == (before.exit, before.group)


HOSTILE = """
import os
os.makedirs("closed/inner"); open("closed/inner/file", "w").close(); os.chmod("closed", 0)
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
"""


async def test_a_working_directory_is_removed_whatever_is_in_it(bench: Bench) -> None:
    link, _ = await run(bench, HOSTILE)

    await ask(link, ForgetRank(1, JOB))

    assert (await observe(link)).ranks == ()
    await until(lambda: list((bench.directory / "ranks").iterdir()) == [])


@pytest.mark.parametrize(
    "mebibytes",
    [200, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(660)])],
)
async def test_output_is_bounded_by_the_job_and_the_newest_is_kept(bench: Bench, mebibytes: int) -> None:
    body = f"import os\nfor _ in range({mebibytes}): os.write(1, b'x' * {MIB})\nprint('the end')"
    link = await bench.quick_agent()
    await ask(link, StartRank(1, spec(script(body, limits=replace(LIMITS, output_bytes=MIB)))))
    await ended(link, JOB, seconds=580)

    log = await ask(link, ReadLog(JOB, 1000))
    assert log.text.endswith("the end\n")
    assert log.offset == mebibytes * MIB + len("the end\n")
    sizes = [path.stat().st_size for path in bench.rank_directory(JOB).glob("rank.*.log")]
    assert sum(sizes) <= MIB


async def test_an_agent_answers_while_a_job_writes_without_end(bench: Bench) -> None:
    link = await bench.agent()
    await ask(link, StartRank(1, spec(script("import os\nwhile True: os.write(1, b'x' * 65536)"))))
    await in_phase(link, "ready", JOB)

    offset, growths = 0, 0
    async with asyncio.timeout(60):
        while growths < 5:
            await observe(link)
            before, offset = offset, (await ask(link, ReadLog(JOB, 1000))).offset
            growths += offset > before

    await ask(link, StopRank(1, JOB, grace_seconds=1))
    await ended(link, JOB)


async def test_a_job_over_its_quota_is_ended(bench: Bench) -> None:
    body = "import os\nfor n in range(64): open(f'f{n}', 'wb').write(os.urandom(1 << 20))\nimport time\ntime.sleep(600)"
    _, report = await run(bench, body, limits=replace(LIMITS, disk_bytes=16 << 20))

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.LIMIT, False)
    assert report.exit.detail == "the working directory has more than 16777216 bytes, its limit"


async def test_a_files_job_of_a_megabyte_is_started(bench: Bench) -> None:
    link = await bench.quick_agent()
    of = script("import os\nprint(os.path.getsize('data'))")
    data = JobFile("data", base64.b64encode(os.urandom(1 << 20)).decode())
    await ask(link, StartRank(1, spec(replace(of, files=(*of.files, data)))))

    report = await ended(link, JOB)

    assert report.exit is not None
    assert report.exit.code == 0
    assert (await ask(link, ReadLog(JOB, 100))).text == f"{1 << 20}\n"


async def test_a_job_whose_shim_dies_is_ended_with_everything(bench: Bench) -> None:
    link = await bench.quick_agent()
    body = "import os, time\nif os.fork(): os.setsid() if False else None\nos.write(1, b'%d\\n' % os.getpid())\ntime.sleep(600)"
    await ask(link, StartRank(1, spec(script(body))))
    ready = await in_phase(link, "ready", JOB)
    found: list[int] = []
    while len(found) < 2:
        found = [int(word) for word in (await ask(link, ReadLog(JOB, 100))).text.split()]
    assert ready.shim_pid is not None

    os.kill(ready.shim_pid, signal.SIGKILL)

    for pid in found:
        await gone(pid)
        assert not alive(pid)


# --- artifacts ---

MADE = """
import os, socket
os.makedirs("out/deep")
open("out/deep/a.txt", "w").write("a" * 10)
open("out/b.txt", "w").write("b" * 5)
open("top.log", "w").write("top")
open("other.log2", "w").write("no")
open("out/new\\nline", "w").close()
open(b"out/\\xff", "w").close()
os.symlink("/etc/passwd", "out/link")
os.symlink("/etc", "out/folder")
os.mkfifo("out/pipe")
socket.socket(socket.AF_UNIX).bind("out/socket")
"""


async def test_artifacts_are_the_files_that_match_and_nothing_else(bench: Bench) -> None:
    link, _ = await run(bench, MADE, artifacts=("out", "*.log"))

    answer = await ask(link, ListArtifacts(JOB))

    assert isinstance(answer, Artifacts)
    assert [(each.path, each.size) for each in answer.files] == [
        ("out/b.txt", 5),
        ("out/deep/a.txt", 10),
        ("top.log", 3),
    ]
    assert len(answer.problems) == 6
    assert all(problem.isprintable() for problem in answer.problems)


async def test_an_artifact_is_read_in_pieces(bench: Bench) -> None:
    link, _ = await run(bench, "open('a', 'wb').write(bytes(range(256)) * 100)", artifacts=("a",))

    content, offset = b"", 0
    while True:
        piece = await ask(link, ReadArtifact(JOB, "a", offset, 10_000))
        assert isinstance(piece, ArtifactPiece)
        assert piece.size == 25_600
        data = base64.b64decode(piece.data)
        if not data:
            break
        content, offset = content + data, offset + len(data)

    assert content == bytes(range(256)) * 100


@pytest.mark.parametrize(
    "path",
    [
        "../spec.json",
        "out/../../spec.json",
        "out/link",
        "out/folder/passwd",
        "out/pipe",
        "out/socket",
        "other.log2",
        "/etc/passwd",
        "out//b.txt",
        "./top.log",
        "out",
        "",
        ".reconciler/hosts.json",
        "out/none",
        "out/\0",
    ],
)
async def test_nothing_but_artifacts_can_be_read(bench: Bench, path: str) -> None:
    link, _ = await run(bench, MADE, artifacts=("out", "*.log"))

    with pytest.raises(Refused) as refused:
        await ask(link, ReadArtifact(JOB, path, 0, 1000))

    assert refused.value.code == "NotFound"


async def test_a_file_that_becomes_a_link_after_it_was_listed_is_refused(bench: Bench) -> None:
    link, _ = await run(
        bench,
        "import os\nos.mkdir('out')\nopen('out/a', 'w').write('mine')\nopen('b', 'w')",
        artifacts=("out", "b"),
    )
    listed = await ask(link, ListArtifacts(JOB))
    assert [each.path for each in listed.files] == ["b", "out/a"]
    (work(bench) / "b").unlink()
    (work(bench) / "b").symlink_to("/etc/shadow")
    (work(bench) / "out").rename(work(bench) / "moved")
    (work(bench) / "out").symlink_to("moved")

    for path in ("b", "out/a"):
        with pytest.raises(Refused):
            await ask(link, ReadArtifact(JOB, path, 0, 1000))


async def test_there_are_at_most_ten_thousand_artifacts(bench: Bench) -> None:
    body = "import os\nos.mkdir('out')\nfor n in range(10_050): os.close(os.open(f'out/{n}', os.O_CREAT))"
    link, _ = await run(bench, body, artifacts=("out",))

    answer = await ask(link, ListArtifacts(JOB))

    assert len(answer.files) == 10_000
    assert "more than 10000 artifacts" in answer.problems[0]


async def test_artifacts_of_an_unknown_rank_are_refused(bench: Bench) -> None:
    link = await bench.quick_agent()

    for request in (ListArtifacts(JOB), ReadArtifact(JOB, "a", 0, 1)):
        with pytest.raises(Refused, match="no rank"):
            await ask(link, request)


def test_many_long_patterns_are_read_whole_and_a_bracket_is_no_pattern(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("a[1].txt", "a1.txt"):
        (tmp_path / "work" / name).touch()
    longer_than_a_pipe = [f"{number}{'x' * 500}" for number in range(256)]
    of = job(["true"], artifacts=("a[1].*", *longer_than_a_pipe))

    answer = artifacts.listing(tmp_path, spec(of))

    assert [file.path for file in answer.files] == ["a[1].txt"]


def test_the_reader_needs_nothing_of_the_product() -> None:
    for name in ("agent/ranks/artifact_reader", "launcher/keeper", "launcher/remote"):
        source = (Path(__file__).parents[3] / "reconciler" / f"{name}.py").read_text()
        assert "reconciler." not in source.replace("reconciler-", "")
        assert "from ." not in source
