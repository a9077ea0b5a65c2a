"""The command line of the agent's file. ``serve`` is the agent of a node, ``shim`` the parent of a rank, and ``spare`` a
parent that waits for a rank. ``relay`` is the command that the gateway's key may run. ``repair`` is the process that
undoes a change of the machine if nobody confirms it.

Each imports only the modules that it needs: clients wait for the start of a shim.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path
from typing import List, Optional, Tuple

from .system import operating_system


def main(arguments: Optional[List[str]] = None) -> int:
    """Run, and return the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser(words[0] if words else "").parse_args(words)
    os.umask(0o077)
    if options.command in ("serve", "shim", "spare"):
        operating_system.use(_folders(options.tools))
    if options.command == "relay":
        from . import relay

        return relay.run(options.run_directory, os.environ)
    if options.command == "spare":
        from .ranks import spare

        return spare.run(options.control, Path(options.program))
    if options.command == "repair":
        from .repairs import runner

        places = (Path(options.directory), Path(options.models))
        return runner.watch(*places, tuple(options.tools.split(":")), options.new)
    if options.command == "shim":
        from .ranks import shim

        listener = socket.socket(fileno=options.listener)
        listener.set_inheritable(False)
        shim.run(Path(options.rank_directory), listener)
        return 0
    from . import serving

    return serving.run(options, _folders(options.tools))


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent")
    commands = parser.add_subparsers(dest="command", required=True)
    if command not in ("relay", "shim", "spare"):  # somebody waits for these, and they need nothing of it
        from . import serving

        serving.add_arguments(commands.add_parser("serve", help="run the agent of a node"))
    parent = commands.add_parser("shim", help="run as the parent of a rank; used by the agent only")
    parent.add_argument("--rank-directory", required=True)
    parent.add_argument("--listener", type=int, required=True, help="descriptor of a listening socket")
    gate = commands.add_parser("relay", help="connect a gateway to one rank; used by sshd only")
    gate.add_argument("--run-directory", required=True, help="directory of the ranks' sockets")
    standby = commands.add_parser("spare", help="wait to become the parent of a rank; used by the agent only")
    standby.add_argument("--control", type=int, required=True, help="descriptor of the agent's socket")
    standby.add_argument("--program", required=True, help="file in the node's directory with what it starts")
    repair = commands.add_parser("repair", help="carry out a repair of the machine; used by the agent only")
    repair.add_argument("--directory", required=True, help="state directory of the agent")
    repair.add_argument("--models", required=True, help="as for serve")
    repair.add_argument("--tools", required=True, help="as for serve")
    repair.add_argument("--new", action="store_true", help="begin a new repair")
    for one in (parent, standby):
        one.add_argument("--tools", help="folders of the system's tools, separated by colons")
    return parser


def _folders(paths: Optional[str]) -> Tuple[str, ...]:
    return tuple(paths.split(":")) if paths else operating_system.FOLDERS
