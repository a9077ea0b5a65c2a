"""The standby process's own end: starts the process that waits, passes on questions to it, and becomes its shim."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from pathlib import Path
from typing import List, Tuple

from reconciler.agent.system.files import read_json
from reconciler.wire.launch import UNANSWERED

from . import child

_MESSAGE_BYTES_MAX = 16 * 1024
ANSWER_BYTES_MAX = 1024 * 1024
"""A pipeline's answer names the files of every stage of up to eight: 40 kB for each hundred files."""
_PROGRAM_BYTES_MAX = 64 * 1024


def run(control: int, program: Path) -> int:
    """Run as a standby process until there is a rank for it, then as its shim. Return the exit status.

    ``program``: the file with the program that it starts, in the node's directory.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kept = read_json(program, _PROGRAM_BYTES_MAX)
    started = child.complete(kept["argv"], kept["env"], program.parent)
    waiting = child.start_standby(*started)
    from . import shim  # during the imports of the process that waits, which take longer

    with socket.socket(fileno=control) as agent:
        agent.set_inheritable(False)
        rank, descriptors = _wait_for_rank(agent, waiting)
    if not rank:
        waiting.end_unused()
        return 0
    listener, errors = descriptors
    for target in (1, 2):
        os.dup2(errors, target)
    os.close(errors)
    os.set_inheritable(listener, False)
    shim.run(Path(os.fsdecode(rank)), socket.socket(fileno=listener), shim.Standby(started, waiting))
    return 0


def _wait_for_rank(agent: socket.socket, waiting: child.Child) -> Tuple[bytes, List[int]]:
    """Return the directory of the rank with the descriptors for it; an empty one if it is no longer needed. Until then
    pass on the agent's questions and the process's answers, or how the process ended."""
    asked = False
    while True:
        ready, _, _ = select.select([agent.fileno(), waiting.progress], [], [])
        if waiting.progress in ready:
            answer = os.read(waiting.progress, ANSWER_BYTES_MAX)
            if not answer:
                if asked:
                    agent.sendall(json.dumps({UNANSWERED: waiting.ending()}).encode() + b"\n")
                return b"", []
            agent.sendall(answer)
            asked = not answer.endswith(b"\n")
        else:
            message, descriptors, _, _ = socket.recv_fds(agent, _MESSAGE_BYTES_MAX, 2)
            if descriptors or not message:
                return message, descriptors
            waiting.tell(message)
            asked = True
