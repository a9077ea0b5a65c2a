"""A launcher without rights, which starts its program as another user by sudo."""

from __future__ import annotations

import ast
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.wire.launch import ExitCode
from reconciler.wire.paths import job_place, jobs_root
from tests.launcher.ranks import ROOT, Launchers, Started, config, pids, script, until, wait_until_gone
from tests.needs import OWN_MOUNTS

pytestmark = [pytest.mark.processes, pytest.mark.needs("root", "linux", "sudo", "namespaces")]

AGENT, USER, PYTHON = "daemon", "nobody", "/usr/bin/python3"
SUDOERS = f"{AGENT} ALL=({USER}) NOPASSWD: ALL"
_ENTER = """
mount -t tmpfs -o mode=755 tmpfs /etc/sudoers.d && echo "$1" > /etc/sudoers.d/reconciler && chmod 440 /etc/sudoers.d/reconciler || exit 99
shift
exec setpriv --reuid="$1" --regid="$1" --clear-groups -- "$2" "$3" "$4"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the agent's user can reach, with the product's code."""
    made = Path(tempfile.mkdtemp(prefix="sudo-"))
    for room in ("wire", "launcher"):
        shutil.copytree(ROOT / "reconciler" / room, made / "reconciler" / room)
    (made / "reconciler" / "__init__.py").touch()
    subprocess.run(["chmod", "-R", "a+rX", str(made)], check=True)
    yield made
    shutil.rmtree(made)
    shutil.rmtree(
        job_place(str(made / "job_bench.0.1.0"), USER, pwd.getpwnam(AGENT).pw_uid), ignore_errors=True
    )


def run(folder: Path, launchers: Launchers, body: str, sudoers: str = SUDOERS, **given: object) -> Started:
    agent = pwd.getpwnam(AGENT).pw_uid
    launchers.folder, launchers.code, launchers.python, launchers.owner = folder, folder, PYTHON, agent
    prefix = (*OWN_MOUNTS, "sh", "-c", _ENTER, "enter", sudoers, str(agent))
    of = script(body, user=USER, python=PYTHON, **given)
    return launchers.start(config(of), prefix=prefix)


def test_a_program_runs_as_its_user(folder: Path, launchers: Launchers) -> None:
    body = "import os\nprint([os.getresuid(), os.getcwd(), sorted(os.environ)])\nraise SystemExit(5)"
    rank = run(folder, launchers, body, secrets={"TOKEN": "s3cret"})

    assert rank.end() == 5, rank.text
    assert rank.program
    ids, work, names = ast.literal_eval(rank.text)
    assert ids == (pwd.getpwnam(USER).pw_uid,) * 3
    assert work.startswith(jobs_root(pwd.getpwnam(AGENT).pw_uid))
    assert "TOKEN" in names
    assert not [name for name in names if name.startswith("SUDO_")]


def test_the_signal_of_a_program_comes_through(folder: Path, launchers: Launchers) -> None:
    rank = run(folder, launchers, "import os\nos.kill(os.getpid(), 11)")

    assert (rank.end(), rank.program) == (-signal.SIGSEGV, True)


DAEMONS = """
import os, signal, time
signal.signal(15, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["it is asked to end", "the shim is lost", "the launcher is killed"])
def test_all_processes_of_the_user_end(folder: Path, launchers: Launchers, how: str) -> None:
    rank = run(folder, launchers, DAEMONS, grace_seconds=0.5)
    until(lambda: len(list(pids(rank.text))) == 2)

    if how == "it is asked to end":
        rank.terminate()
    elif how == "the shim is lost":
        rank.lose_shim()
    else:
        os.killpg(rank.process.pid, signal.SIGKILL)

    rank.end()
    for pid in pids(rank.text):
        wait_until_gone(pid)


def test_without_the_line_of_sudoers_it_says_what_is_missing(folder: Path, launchers: Launchers) -> None:
    rank = run(folder, launchers, "", sudoers="# none")

    assert rank.end() == ExitCode.CONFIG
    assert not rank.program
    assert f"no process can be started as the user {USER}: its sudoers line is missing" in rank.detail
