"""The keeper by itself: it ends everything that is its own, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.launcher import keeper
from tests.launcher.ranks import Launchers, pids, script, until

LIMITS = {"open_files": 256, "processes": 4096, "disk": 1 << 30}


@pytest.mark.processes
def test_a_request_to_end_a_program_that_has_ended_is_not_for_the_next_one(tmp_path: Path) -> None:
    start: dict[str, Any] = {"do": "start", "env": {}, "limits": LIMITS}
    commands = [
        {"do": "prepare", "folder": str(tmp_path / "work"), "folders": [], "files": []},
        {"do": "end", "grace": 0},
        {**start, "argv": ["/bin/sleep", "0.5"]},
    ]
    kept = subprocess.Popen(
        [sys.executable, keeper.__file__, "0", "0", keeper.MARK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert kept.stdin is not None
    assert kept.stdout is not None

    kept.stdin.write(b"".join(json.dumps(command).encode() + b"\n" for command in commands))
    kept.stdin.flush()

    answers = [json.loads(kept.stdout.readline()) for _ in range(3)]
    assert answers[2] == {"ended": 0}
    kept.communicate()


LIVES_ON = """
import ctypes, os, threading, time
child = os.fork()
if not child:
    threading.Thread(target=time.sleep, args=(600,)).start()
    os.write(1, b"%d\\n" % os.getpid())
    ctypes.CDLL(None).pthread_exit(None)
while b") Z" not in open(f"/proc/{child}/stat", "rb").read(): time.sleep(0.01)
"""


@pytest.mark.processes
@pytest.mark.needs("linux")
def test_a_process_whose_first_thread_has_ended_does_not_outlive_a_rank(launchers: Launchers) -> None:
    rank = launchers.run(script(LIVES_ON))

    assert rank.end() == 0, rank.text
    (pid,) = pids(rank.text)
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_process_that_has_the_number_of_a_killed_one_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    own = keeper.Process(os.getpid(), 1, os.getpid(), os.getpid(), 0, False, True)
    child = own._replace(pid=7, parent=own.pid, keeper=False)
    shown = [own, child]
    killed: list[int] = []
    monkeypatch.setattr(keeper, "become_subreaper", lambda: None)
    monkeypatch.setattr(keeper, "processes", lambda: iter(shown))
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    tree = keeper.Tree(0, own_user=False)

    def end() -> None:
        shown[1] = child._replace(dead=True)

    tree.kill(end)
    shown[1] = child._replace(parent=1, group=7, session=7)

    assert killed == [7]
    assert tree.look() == []
