"""JACCL on an emulated Mac: its checks with its own messages, its stages in their order, and its collectives over TCP.

Like the real one (``jaccl.cpp``, ``mesh.cpp``, ``rdma.cpp`` of MLX 0.32), it reads the device matrix, opens the devices
and takes their kernel objects. It exchanges the identifiers of its queue pairs over the side channel, connects these,
and meets the others once more. The sandbox answers for the devices. The collectives are MLX's ring, through relays with
which the sandbox plays the cables. So nobody gets a report of a peer's end.
"""

from __future__ import annotations

import _socket
import atexit
import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import network
from .line import Line
from .results import Results

Gather = Callable[[bytes, int], bytes]
Devices = list[list[list[str]]]
"""Names of the devices between ranks, by rank and peer."""

MESH_RANKS_MAX = 8
RING_CABLES_MAX = 4
VARIABLES = {
    "rank": ("JACCL_RANK", "MLX_RANK"),
    "devices": ("JACCL_IBV_DEVICES", "MLX_IBV_DEVICES"),
    "ring": ("JACCL_RING", "MLX_JACCL_RING"),
}
MISSING = (
    "[jaccl] You need to provide via environment variables a rank (JACCL_RANK/MLX_RANK), a device file"
    " (JACCL_IBV_DEVICES/MLX_IBV_DEVICES) and a coordinator ip/port (JACCL_COORDINATOR/MLX_JACCL_COORDINATOR)."
)


def patch(mx: Any, line: Line) -> None:
    """Replace JACCL in ``mx.distributed`` by that of the emulated machine."""
    init, is_available = mx.distributed.init, mx.distributed.is_available
    results = Results(mx, line)
    formed = False

    def emulated_init(strict: bool = False, backend: str = "any", *, all_gather_factory: Any = None) -> Any:
        if backend not in ("jaccl", "ring") or (backend == "ring" and "MLX_HOSTFILE" not in os.environ):
            return init(strict, backend)
        if line.hello["alone"]:
            return init(False, "jaccl")
        nonlocal formed
        if backend == "ring":
            if formed:  # MLX has its only ring already: it carries JACCL
                network.meet_itself()
            return results.leave(init(strict, backend))
        if not line.hello["jaccl"]:
            if strict:
                raise RuntimeError("Cannot initialize jaccl distributed backend.")
            return init(False, "jaccl")
        if all_gather_factory is None:
            raise RuntimeError("an emulated Mac has no coordinator's port: give an all_gather_factory")
        formed = True
        return form(line, init, all_gather_factory)

    def emulated_is_available(backend: str = "any") -> bool:
        return bool(line.hello["jaccl"] if backend == "jaccl" else is_available(backend))

    mx.distributed.init = emulated_init
    mx.distributed.is_available = emulated_is_available


def form(line: Line, real: Callable[..., Any], factory: Callable[[int, int], Gather]) -> Any:
    """Return the group, carried by MLX's ring. Raises ``RuntimeError`` and ``ValueError`` with JACCL's texts."""
    rank, path, prefers_ring = (_variable(what) for what in ("rank", "devices", "ring"))
    if not rank or not path:
        raise RuntimeError(MISSING)
    devices = read_devices(json.loads(Path(path).read_text(encoding="utf-8")))
    me, size = int(rank), len(devices)
    rows = chosen(devices, prefers_ring is not None)
    gather = factory(me, size)
    opened = _checked(line.ask("open", devices=rows[me], ring=any(len(row) > 1 for row in rows[me])))
    atexit.register(line.ask, "close")  # as MLX releases devices: at an exit, and not when it is killed
    with socket.socket() as held:  # kept until MLX listens there, so that no other process gets it
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _socket.socket.bind(held, (network.LOOPBACK, 0))  # JACCL itself listens on no port
        port = held.getsockname()[1]
        gathered = [
            json.loads(part) for part in _gathered(gather, {"port": port, "infos": opened["infos"]}, size)
        ]
        right = (me + 1) % size
        infos = [each["infos"][me] for each in gathered]
        answer = _checked(line.ask("connect", infos=infos, right=right, port=gathered[right]["port"]))
        gather(b"\0", 1)
        return network.joined(real, me, size, (port, answer["port"]))


def _variable(what: str) -> str | None:
    return next((os.environ[name] for name in VARIABLES[what] if name in os.environ), None)


def read_devices(rows: Any) -> Devices:
    """Return the content of the device file. Raises ``RuntimeError`` with JACCL's texts."""
    if not isinstance(rows, list):
        raise RuntimeError("[jaccl] The device file should start with an array")
    devices: Devices = []
    for rank, row in enumerate(rows):
        if not isinstance(row, list):
            raise RuntimeError("[jaccl] The device file should have an array of arrays")
        if len(row) != len(rows):
            raise RuntimeError(
                "[jaccl] The device file should contain the connectivity of each rank to all other ranks but rank"
                f" {rank} contains only {len(row)} entries."
            )
        devices.append([_names(cell) for cell in row])
    return devices


def _names(cell: Any) -> list[str]:
    if cell is None:
        return []
    names = [cell] if isinstance(cell, str) else cell
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RuntimeError("[jaccl] Device names should be null, a string or array of strings.")
    return names


def chosen(devices: Devices, prefers_ring: bool) -> Devices:
    """Return the devices to use: a ring if it is preferred and exists, else a mesh, else a ring."""
    size = len(devices)
    if (prefers_ring or not is_mesh(devices)) and is_ring(devices):
        if len(devices[0][1]) > RING_CABLES_MAX:
            raise RuntimeError(
                f"[jaccl] Up to 4 per direction supported but {len(devices[0][1])} were provided."
            )
        sides = [{(rank + 1) % size, (rank - 1) % size} for rank in range(size)]
        return [
            [names if at in sides[rank] else [] for at, names in enumerate(row)]
            for rank, row in enumerate(devices)
        ]
    if not is_mesh(devices):
        raise RuntimeError("[jaccl] The configuration should define a valid mesh or a valid ring.")
    if size > MESH_RANKS_MAX:
        raise RuntimeError(f"[jaccl] The JACCL mesh supports up to 8 peers but {size} were provided.")
    wires = min(len(row[at]) for rank, row in enumerate(devices) for at in range(size) if rank != at)
    return [[names[:wires] for names in row] for row in devices]


def is_mesh(devices: Devices) -> bool:
    """Return whether there is a device for every pair, and none from a rank to itself."""
    size = len(devices)
    return size > 1 and all(
        bool(row[at]) != (rank == at) for rank, row in enumerate(devices) for at in range(size)
    )


def is_ring(devices: Devices) -> bool:
    """Return whether all neighbours are joined by the same number of devices. As in JACCL, no devices are a ring
    too."""
    size = len(devices)
    if size < 2:
        return False
    count = len(devices[0][1])
    return all(
        len(row[(rank + step) % size]) == count for rank, row in enumerate(devices) for step in (1, -1)
    )


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error", "")
    if error:
        raise (ValueError if "Changing queue pair" in error else RuntimeError)(error)
    return answer


def _gathered(gather: Gather, content: Any, size: int) -> list[bytes]:
    """Return the shared data of all ranks. The lengths, which may differ, are exchanged first, as in JACCL."""
    mine = json.dumps(content).encode()
    gathered = gather(struct.pack(">I", len(mine)), 4)
    lengths = struct.unpack(f">{size}I", gathered)
    longest = max(lengths)
    joined = gather(mine.ljust(longest, b"\0"), longest)
    return [joined[at * longest : at * longest + length] for at, length in enumerate(lengths)]
