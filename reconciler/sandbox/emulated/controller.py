"""Makes a controller believe that its own machine is a Mac of the sandbox. Standard library only.

The sandbox copies this file as ``sitecustomize.py`` into a separate folder: see ``reconciler.sandbox.controllers_mac``.
While macOS forbids the controller the local network (Apple TN3179), its connections to emulated machines end with "No
route to host". Those of ``ssh``, which is another program, do not. Names under ``.local`` are those of emulated
machines.
"""

import errno
import json
import os
import socket
from pathlib import Path
from typing import Any

STATE = "state.json"


def read(folder: Path) -> Any:
    return json.loads((folder / STATE).read_text(encoding="utf-8"))


def patch(folder: Path) -> None:
    connect, find = socket.socket.connect, socket.getaddrinfo

    def connected(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_INET:
            state = read(folder)
            if state["private"] and address[1] in state["ports"]:
                raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        connect(self, address)

    def found(host: Any, *arguments: Any, **more: Any) -> Any:
        names = read(folder)["names"] if isinstance(host, str) and host.endswith(".local") else {}
        if names.get(host) == "":
            raise socket.gaierror(socket.EAI_NONAME, "nodename nor servname provided, or not known")
        return find(names.get(host, host), *arguments, **more)

    replaced: Any = socket.socket
    replaced.connect, socket.getaddrinfo = connected, found


if __name__ == "sitecustomize":
    patch(Path(__file__).parent)
