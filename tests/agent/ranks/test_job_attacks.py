"""Attacks of a job that runs as a user of its own: it reads and writes nothing but its own."""

from __future__ import annotations

import ast
import base64
import os
import pwd
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import Refused
from reconciler.wire.launch import ExitCode, RankId
from reconciler.wire.node import ForgetRank, ListArtifacts, ReadArtifact, ReadLog, StartRank, StopRank
from reconciler.wire.paths import job_place, jobs_root
from tests.agent.bench import Bench, ask, ended, gone, in_phase, observe, until
from tests.agent.ranks.jobs import JOB, run, spec
from tests.launcher.ranks import script

pytestmark = [pytest.mark.processes, pytest.mark.needs("root", "linux")]

USER = "nobody"
PYTHON = "/usr/bin/python3"
OTHER = RankId("job_other", 0, 1, 0)


def place(bench: Bench, id: RankId = JOB) -> Path:
    return Path(job_place(str(bench.rank_directory(id)), USER, os.geteuid()))


async def attack(bench: Bench, body: str, **given: Any) -> Any:
    """Run a script as the user; return what it printed, a literal of Python."""
    link, report = await run(bench, body, user=USER, python=PYTHON, **given)
    text = (await ask(link, ReadLog(JOB, 100_000))).text
    assert report.exit is not None
    assert report.exit.code == 0, (report.exit, text)
    result = ast.literal_eval(text)
    await ask(link, ForgetRank(1, JOB))
    await until(lambda: not place(bench).exists())
    return result


TRY = """
import os, socket
def tried(act, *arguments):
    try:
        return repr(act(*arguments))[:200]
    except OSError as error:
        return error.__class__.__name__
"""


async def test_a_program_runs_as_its_user_in_a_directory_of_its_own(bench: Bench) -> None:
    body = "import os\ns = os.stat('.')\nprint([os.getresuid(), os.getresgid(), os.getgroups(), s.st_uid, oct(s.st_mode), os.getcwd()])"
    ids, groups, further, owner, mode, at = await attack(bench, body)

    user = pwd.getpwnam(USER)
    assert ids == (user.pw_uid,) * 3
    assert groups == (user.pw_gid,) * 3
    assert set(further) <= set(os.getgrouplist(USER, user.pw_gid))
    assert (owner, mode) == (user.pw_uid, "0o40700")
    assert at == str(place(bench) / "work")
    root = Path(jobs_root(os.geteuid())).stat()
    assert (root.st_uid, stat.S_IMODE(root.st_mode)) == (os.geteuid(), 0o711)


async def test_it_reads_nothing_of_the_agent(bench: Bench) -> None:
    (bench.home / "key").write_text("key")
    await bench.quick_agent()
    paths = [bench.home, bench.home / "key", bench.directory, bench.rank_directory(), bench.run_directory]
    paths += [bench.rank_directory(JOB) / name for name in ("config.json", "spec.json", "rank.0.log")]
    body = (
        TRY
        + f"""
print([tried(open, path) if os.path.isfile(path) else tried(os.listdir, path) for path in {list(map(str, paths))!r}])
"""
    )
    found = await attack(bench, body)

    assert set(found) <= {"PermissionError", "FileNotFoundError"}


async def test_it_connects_to_no_socket(bench: Bench) -> None:
    await bench.quick_agent()
    body = (
        TRY
        + f"""
import glob
def call(path):
    with socket.socket(socket.AF_UNIX) as caller: caller.connect(path)
run = {str(bench.run_directory)!r}
print([tried(call, run + "/" + name) for name in {[path.name for path in bench.run_directory.iterdir()]!r}])
"""
    )
    found = await attack(bench, body)

    assert found
    assert set(found) == {"PermissionError"}


async def test_it_reads_the_environment_of_no_other_process(bench: Bench) -> None:
    body = (
        TRY
        + """
import glob
found = {}
for path in glob.glob("/proc/[0-9]*"):
    try:
        if os.stat(path).st_uid == os.getuid(): continue
    except OSError: continue
    for name in ("environ", "mem", "maps"):
        try:
            with open(path + "/" + name, "rb") as stream:
                if stream.read(1): found[path] = name
        except OSError: pass
    try: os.listdir(path + "/fd"); found[path] = "fd"
    except OSError: pass
print([found, tried(os.kill, os.getppid(), 0) == "None", tried(os.kill, 1, 0)])
"""
    )
    found, _, init = await attack(bench, body)

    assert found == {}
    assert init == "PermissionError"


async def test_it_signals_no_process_of_the_agent(bench: Bench) -> None:
    body = (
        TRY
        + """
import signal
def above(pid):
    while pid > 1:
        yield pid
        pid = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
print([tried(os.kill, pid, signal.SIGTERM) for pid in above(os.getppid()) if os.stat(f"/proc/{pid}").st_uid != os.getuid()])
"""
    )
    found = await attack(bench, body)

    assert len(found) >= 2
    assert set(found) == {"PermissionError"}


async def test_it_finds_no_other_jobs(bench: Bench) -> None:
    link = await bench.quick_agent()
    await ask(
        link,
        StartRank(1, spec(script("open('secret', 'w').write('x')\nimport time\ntime.sleep(600)"), OTHER)),
    )
    await in_phase(link, "ready", OTHER)
    mine = bench.rank_directory(OTHER) / "work" / "secret"
    await until(mine.exists)
    body = (
        TRY
        + f"""
root = {jobs_root(os.geteuid())!r}
def make(path):
    return open(path, "w")
print([tried(os.listdir, root), tried(open, {str(mine)!r}), tried(make, root + "/x"), tried(make, "../x"), tried(open, "../place.json"), tried(os.rename, ".", "../y"), tried(os.symlink, "/", "../calls")])
"""
    )
    found = await attack(bench, body)

    assert found[0] == "PermissionError"
    assert set(found) == {"PermissionError"} or set(found) == {"PermissionError", "OSError"}, found
    await ask(link, StopRank(1, OTHER, grace_seconds=1))
    await ended(link, OTHER)


async def test_its_artifacts_lead_nowhere_else(bench: Bench) -> None:
    body = """
import os
os.mkdir("out")
os.symlink("/etc/shadow", "out/shadow")
os.symlink("/etc", "out/etc")
open("out/real", "w").write("mine")
try: os.link("/etc/shadow", "out/hard")
except OSError: pass
try: os.mknod("out/null", 0o20666, os.makedev(1, 3))
except OSError: pass
"""
    link, _ = await run(bench, body, user=USER, python=PYTHON, artifacts=("out",))

    answer = await ask(link, ListArtifacts(JOB))

    assert [each.path for each in answer.files] == ["out/real"]
    piece = await ask(link, ReadArtifact(JOB, "out/real", 0, 100))
    assert base64.b64decode(piece.data) == b"mine"
    for path in ("out/shadow", "out/etc/shadow", "out/hard", "out/null", "../place.json", "../../x"):
        with pytest.raises(Refused):
            await ask(link, ReadArtifact(JOB, path, 0, 100))
    await ask(link, ForgetRank(1, JOB, keep_record=True))
    await until(lambda: not place(bench).exists())
    assert (await observe(link)).ranks[0].exit is not None
    await ask(link, ForgetRank(1, JOB))


async def test_a_file_of_others_in_its_place_cannot_be_read(bench: Bench) -> None:
    """The reader has the user's own rights: even what should not be there is out of its reach."""
    link, _ = await run(bench, "import os\nos.mkdir('out')", user=USER, python=PYTHON, artifacts=("out",))
    foreign = place(bench) / "work" / "out" / "foreign"
    foreign.write_text("of root")
    foreign.chmod(0o600)

    with pytest.raises(Refused):
        await ask(link, ReadArtifact(JOB, "out/foreign", 0, 100))
    await ask(link, ForgetRank(1, JOB))
    await until(lambda: not place(bench).exists())


async def test_nothing_of_the_agents_environment_reaches_it(bench: Bench) -> None:
    os.environ["SECRET_OF_THE_AGENT"] = "x"
    try:
        names, parents = await attack(
            bench,
            "import os\nprint([sorted(os.environ), open(f'/proc/{os.getppid()}/environ').read()])",
        )
    finally:
        del os.environ["SECRET_OF_THE_AGENT"]

    assert not [name for name in names if "AGENT" in name or name == "RECONCILER_PROGRESS_FD"]
    assert {name for name in parents.split("\0") if name} <= {
        f"RECONCILER_RANK_CONFIG={bench.rank_directory(JOB)}/config.json",
        f"PATH={os.defpath}",
    }


KILLER = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    time.sleep(600)
time.sleep(0.2)
os.write(1, b"%d\\n" % os.getpid())
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""


async def test_a_program_that_kills_its_keeper_ends_with_all_that_it_has_started(bench: Bench) -> None:
    link, report = await run(bench, KILLER, user=USER, python=PYTHON)

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.UNEXPECTED, False)
    await gone(int((await ask(link, ReadLog(JOB, 100))).text.split()[0]))
    uid = pwd.getpwnam(USER).pw_uid
    await until(lambda: not [p for p in Path("/proc").iterdir() if p.name.isdigit() and owner(p) == uid])
    await ask(link, ForgetRank(1, JOB))
    await until(lambda: not place(bench).exists())


def owner(path: Path) -> int:
    try:
        return path.stat().st_uid
    except OSError:
        return -1


async def test_a_user_that_does_not_exist_is_told(bench: Bench) -> None:
    _, report = await run(bench, "", user="no-such-user")

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.CONFIG, False)
    assert "there is no user no-such-user" in report.exit.detail


async def test_a_python_that_the_user_may_not_run_is_told(bench: Bench, tmp_path: Path) -> None:
    mine = tmp_path / "python"
    shutil.copy(PYTHON, mine)
    mine.chmod(0o700)
    _, report = await run(bench, "", user=USER, python=str(mine))

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.CONFIG, False)
    assert str(mine) in report.exit.detail


async def test_a_place_that_somebody_else_has_taken_is_not_used(bench: Bench) -> None:
    await bench.quick_agent()
    taken = place(bench)
    taken.parent.mkdir(0o711, exist_ok=True)
    taken.symlink_to("/tmp")
    try:
        _, report = await run(bench, "", user=USER, python=PYTHON)
    finally:
        taken.unlink()

    assert report.exit is not None
    assert (report.exit.code, report.exit.program) == (ExitCode.CONFIG, False)


async def test_secrets_are_in_no_command_line(bench: Bench) -> None:
    link = await bench.quick_agent()
    body = "import time\ntime.sleep(600)"
    of = replace(script(body, secrets={"TOKEN": "hunter-2"}), user=USER, python=PYTHON)
    await ask(link, StartRank(1, spec(of)))
    await in_phase(link, "ready", JOB)
    uid = pwd.getpwnam(USER).pw_uid
    await until(
        lambda: len([p for p in Path("/proc").iterdir() if p.name.isdigit() and owner(p) == uid]) >= 2
    )

    shown = [
        content for path in Path("/proc").glob("[0-9]*/cmdline") if b"hunter-2" in (content := read(path))
    ]

    assert shown == []
    await ask(link, StopRank(1, JOB, grace_seconds=1))
    await ended(link, JOB)
    await ask(link, ForgetRank(1, JOB))
    await until(lambda: not place(bench).exists())


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
