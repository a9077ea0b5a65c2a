"""One rank: its program, its environment, and its end."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from reconciler.wire.launch import ExitCode, JobFile, Phase
from tests.launcher.ranks import Launchers, config, job, pids, script, until, wait_until_gone

pytestmark = pytest.mark.processes


def test_a_program_runs_in_its_directory_and_ends_with_its_own_status(launchers: Launchers) -> None:
    rank = launchers.run(script("import os\nprint(os.getcwd())\nraise SystemExit(67)"))

    assert rank.end() == ExitCode.PEER_LOST
    assert rank.program
    assert rank.detail == ""
    assert rank.text == f"{rank.work}\n"
    assert rank.phases() == [Phase.READY, Phase.READY]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, 40])
def test_the_signal_that_ends_a_program_ends_its_launcher(launchers: Launchers, number: int) -> None:
    rank = launchers.run(script(f"import os\nos.kill(os.getpid(), {int(number)})"))

    assert rank.end() == -number
    assert rank.program


def test_a_program_that_cannot_be_started_ends_with_127(launchers: Launchers) -> None:
    rank = launchers.run(job(("no-such-program",)))

    assert rank.end() == 127
    assert rank.program
    assert rank.detail == "cannot start no-such-program: No such file or directory"


def test_a_program_has_exactly_the_variables_that_it_is_given(launchers: Launchers) -> None:
    body = "import json, os\nprint(json.dumps(dict(os.environ)))"
    rank = launchers.start(
        config(script(body, env={"A": "1", "LANG": "de"}, secrets={"TOKEN": "s3cret"})),
        env={"RECONCILER_HOME": "/somewhere", "SSH_AUTH_SOCK": "/agent", "AWS_SECRET": "x"},
    )

    assert rank.end() == 0
    found = json.loads(rank.text)
    path = found.pop("PATH")
    assert path.startswith(f"{Path(sys.executable).parent}:")
    found.pop("LC_CTYPE", None)
    assert found == {
        "A": "1",
        "HOME": str(rank.work),
        "LANG": "de",
        "MLX_RANK": "0",
        "PYTHONUNBUFFERED": "1",
        "RECONCILER_ATTEMPT": "1",
        "RECONCILER_JOB": "bench",
        "RECONCILER_RANK": "0",
        "RECONCILER_RUN": "0",
        "RECONCILER_WORLD_SIZE": "1",
        "TMPDIR": str(rank.work / ".tmp"),
        "TOKEN": "s3cret",
        "USER": found["USER"],
    }


def test_nothing_is_inherited_but_output(launchers: Launchers) -> None:
    body = (
        "import os, sys\n"
        "print([n for n in range(3, 256) if os.path.exists(f'/dev/fd/{n}') and n != max(map(int, os.listdir('/dev/fd')))])\n"
        "print(repr(sys.stdin.read()), os.getpgid(0) == os.getpid())"
    )
    rank = launchers.run(script(body))

    assert rank.end() == 0
    assert rank.text == "[]\n'' True\n"


def test_the_files_of_a_job_are_in_its_directory(launchers: Launchers) -> None:
    program = base64.b64encode(b"#!/bin/sh\ncat data").decode()
    data = base64.b64encode(b"hi\n").decode()
    files = (JobFile("run.sh", program, True), JobFile("data", data))
    rank = launchers.run(job(("run.sh",), files=files))

    assert rank.end() == 0
    assert rank.text == "hi\n"
    assert stat.S_IMODE(rank.work.stat().st_mode) == 0o700
    assert stat.S_IMODE((rank.work / "data").stat().st_mode) == 0o600


@pytest.mark.parametrize(("status", "seen"), [(3, 3), (0, -signal.SIGTERM)])
def test_a_program_is_asked_to_end_and_may_end_in_order_but_has_not_completed(
    launchers: Launchers, status: int, seen: int
) -> None:
    body = f"import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit({status}))\nprint('up')\ntime.sleep(600)"
    rank = launchers.run(script(body))
    rank.wait_for("up")

    rank.terminate()

    assert rank.end() == seen
    assert rank.program
    assert rank.phases()[-1] == Phase.DRAINING


def test_a_program_that_ignores_the_request_is_killed_after_its_grace(launchers: Launchers) -> None:
    body = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\ntime.sleep(600)"
    rank = launchers.run(script(body, grace_seconds=0.3))
    rank.wait_for("up")

    rank.terminate()

    assert rank.end() == -signal.SIGKILL


def test_without_its_shim_everything_ends(launchers: Launchers) -> None:
    body = "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint(os.getpid())\ntime.sleep(600)"
    rank = launchers.run(script(body))
    rank.wait_for("\n")

    rank.lose_shim()

    assert rank.end() == ExitCode.ORPHANED
    assert not rank.program
    for pid in pids(rank.text):
        wait_until_gone(pid)


DAEMON = """
import os, signal, time
def daemon():
    if os.fork(): return
    os.setsid()
    if os.fork(): os._exit(0)
    signal.signal(15, signal.SIG_IGN)
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
daemon()
child = os.fork()
if not child:
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(600)
while not (os.path.exists("go")): time.sleep(0.01)
"""


@pytest.mark.parametrize("how", ["program ends", "launcher is killed", "shim is lost"])
def test_children_and_daemons_do_not_outlive_a_rank(launchers: Launchers, how: str) -> None:
    rank = launchers.run(script(DAEMON))
    until(lambda: len(list(pids(rank.text))) == 2)

    if how == "program ends":
        (rank.work / "go").touch()
        assert rank.end() == 0
    elif how == "launcher is killed":
        os.killpg(rank.process.pid, signal.SIGKILL)
    else:
        rank.lose_shim()

    for pid in pids(rank.text):
        wait_until_gone(pid)
