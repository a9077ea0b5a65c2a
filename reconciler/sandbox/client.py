"""Every tool of an emulated machine is a copy of this file under the tool's name: it asks the sandbox and prints the
answer.

A machine runs tens of tools a minute, and a Python process spends most of its time on imports. This file imports only
modules of the interpreter itself and ``os``: with ``json``, ``socket`` and ``pathlib``, a tool would take three times
as long. The file ``emulated`` next to it names the machine and the control socket. ``control.py`` describes the
question and the answer. If a tool must run another command, as ``sudo`` does, it becomes that command.
"""

import _socket
import os
import sys
from _json import encode_basestring_ascii as quoted

ROOT_VARIABLE = "EMULATED_ROOT"
"""Set for commands that the emulated ``sudo`` runs."""
SYSTEM = ("", "/usr/bin", "/usr/sbin", "/bin", "/sbin")
EXIT_NOBODY = 70
RECEIVED_BYTES = 65536


def main() -> int:
    folder, _, tool = __file__.rpartition("/")
    with open(folder + "/emulated") as settings:
        machine, control = settings.read().splitlines()
    answer = request(control, question(machine, [tool, *sys.argv[1:]]))
    head, _, rest = answer.partition(b"\n")
    if not head.startswith(b"code "):
        sys.stderr.write("{}: {}\n".format(tool, head.decode() or "the sandbox has ended"))
        return EXIT_NOBODY
    code, out_bytes, err_bytes, as_root = map(int, head.split()[1:])
    write(1, rest[:out_bytes])
    write(2, rest[out_bytes : out_bytes + err_bytes])
    argv = rest[out_bytes + err_bytes :].decode()
    if argv:
        become(folder, argv.split("\0"), bool(as_root))
    return code


def question(machine: str, argv: list[str]) -> bytes:
    words = ", ".join(map(quoted, argv))
    root = "true" if ROOT_VARIABLE in os.environ else "false"
    form = '{{"ask": "tool", "machine": {}, "argv": [{}], "root": {}, "pid": {}}}\n'
    return form.format(quoted(machine), words, root, os.getpid()).encode()


def request(path: str, asked: bytes) -> bytes:
    """Return the answer to a question; empty if nobody answers. Tools may take any time."""
    connection = _socket.socket(_socket.AF_UNIX)
    parts: list[bytes] = []
    try:
        connection.connect(path)
        connection.sendall(asked)
        while True:
            part = connection.recv(RECEIVED_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except OSError:
        return b""
    finally:
        connection.close()


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def become(folder: str, argv: list[str], as_root: bool) -> None:
    """Run a command in place of this process. As root, use the machine's own tool for one of the system, if it has
    it."""
    program = argv[0]
    if as_root:
        os.environ[ROOT_VARIABLE] = "1"
        place, _, name = program.rpartition("/")
        own = folder + "/" + name
        if os.access(own, os.X_OK) and place in SYSTEM:
            program = own
    os.execvp(program, [program, *argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
