"""Every tool of an emulated machine is a copy of this file, by the tool's name: it asks the sandbox, and says its answer.

Standard library only. ``machine.json`` two folders up names the machine and the control socket. What a tool is to run
itself, as ``sudo`` does, it becomes.
"""

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

ROOT_VARIABLE = "EMULATED_ROOT"
"""Set for what the emulated ``sudo`` runs."""
SYSTEM = ("", "/usr/bin", "/usr/sbin", "/bin", "/sbin")
EXIT_NOBODY = 70


def main() -> int:
    """Ask, say, and give back the exit status."""
    tool = Path(__file__)
    machine = json.loads((tool.parent / "../../machine.json").read_text())
    question = {
        "ask": "tool",
        "machine": machine["machine"],
        "argv": [tool.name, *sys.argv[1:]],
        "root": ROOT_VARIABLE in os.environ,
        "pid": os.getpid(),
    }
    answer = request(machine["control"], question)
    if not answer.get("ok"):
        sys.stderr.write("{}: {}\n".format(tool.name, answer.get("error", "the sandbox has ended")))
        return EXIT_NOBODY
    sys.stdout.write(answer["stdout"])
    sys.stderr.write(answer["stderr"])
    if answer["become"]:
        sys.stdout.flush()
        become(tool.parent, answer["become"], answer["as_root"])
    return int(answer["code"])


def request(path: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question; empty if nobody answers. Tools may take any time."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(json.dumps(question).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer: dict[str, Any] = json.loads(lines.readline() or b"{}")
                return answer
    except OSError:
        return {}


def become(folder: Path, argv: list[str], as_root: bool) -> None:
    """Run a command in place of this. As root, a tool of the system is the machine's own, where it has it."""
    program = argv[0]
    if as_root:
        os.environ[ROOT_VARIABLE] = "1"
        own = folder / Path(program).name
        if os.access(own, os.X_OK) and program.rpartition("/")[0] in SYSTEM:
            program = str(own)
    os.execvp(program, [program, *argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
