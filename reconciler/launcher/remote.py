"""Runs in place of SSH: ``reconciler-remote HOST COMMAND...``, as ``mpirun`` calls it.

A module without others of the product, copied into the working directory of rank 0: the user of the job runs it. It asks
the launcher of this rank to run the command on another machine, and ends with the status of the command.
"""

from __future__ import annotations

import json
import os
import socket
import sys

VARIABLE = "RECONCILER_REMOTE"
UNREACHED = 255
"""Exit status if the command could not be run, as SSH has it."""


def main(words: list[str]) -> int:
    """Return the exit status of the command."""
    while words and words[0].startswith("-"):
        words = words[1:]
    path, _, word = os.environ.get(VARIABLE, "").rpartition(" ")
    if not path or len(words) < 2:
        sys.stderr.write("usage: reconciler-remote HOST COMMAND..., in a job with mpi\n")
        return UNREACHED
    call = json.dumps({"word": word, "host": words[0], "command": " ".join(words[1:])})
    os.chdir(os.path.dirname(path))  # the whole path may be longer than the path of a socket may be
    with socket.socket(socket.AF_UNIX) as launcher:
        launcher.connect(os.path.basename(path))
        launcher.sendall(call.encode() + b"\n")
        answer = launcher.makefile("rb").readline()
    if not answer:
        sys.stderr.write("reconciler-remote: {} cannot be reached\n".format(words[0]))
        return UNREACHED
    return int(json.loads(answer)["status"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
