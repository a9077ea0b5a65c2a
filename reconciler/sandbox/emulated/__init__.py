"""Makes a real rank believe that it runs on an emulated Mac. Standard library only; never imported by the product.

The sandbox copies this folder as the package ``emulated_mac`` into the Python of each emulated machine. It adds a line
in a ``.pth`` file that calls ``begin``, and a file ``emulated_mac.json`` with the machine and the control socket of the
sandbox (``reconciler.sandbox.places`` does all three). Every process of that Python then:

* reports, if it is the agent, ranks as idle for as long as the file ``emulated_mac.idle`` says: see ``idleness``.
* takes ``mx.distributed.is_available("jaccl")`` from the machine's state, and raises its GPU's faults at ``mx.eval``.
* if it is a rank, reaches the addresses of emulated machines through relays of the sandbox, which plays the network and
the cables. It also forms JACCL groups: see ``jaccl``.

Its messages to the sandbox, a line of JSON each, over one connection to the control socket for its whole life:

=========================================  =============================================================================
the process says                           the sandbox answers, in the same order, one line each
=========================================  =============================================================================
``ask: rank, machine, pid``                ``ok, jaccl, alone, working_set, gpu, garbage``: whether MLX there has JACCL,
                                           whether its groups are of one, the bytes that Metal recommends, the error of
                                           its GPU (a text, or empty), and which of its sums over RDMA are wrong
``say: listen, port, chosen``              ``ok``; or ``errno`` by name: another process holds the port, unless the kernel
                                           has ``chosen`` it
``say: way, host, port, kept_alive``       ``ok, port`` on this host that leads there; or ``errno`` by name. A connection
                                           that is ``kept_alive`` ends after a long silence
``say: open, devices, ring``               ``ok, infos``: for each peer, the data to reach this rank's queue pair
                                           (null for none); or ``error``, JACCL's text. Nothing while the driver is wedged
``say: connect, infos, right, port``       ``ok, port`` of a relay to the right neighbour, whose listening port was ``port``;
                                           ``infos`` are the peers' for this rank; or ``error``, JACCL's text
``say: close``                             ``ok``: the process releases its open devices
``say: felt``                              ``ok``: the process has raised a fault of the GPU that comes once
=========================================  =============================================================================

At any time the sandbox may send a line with ``tell``. ``gpu, text``: the GPU raises this error from now on. ``failed,
text``: the next collective raises this error, because its queue pairs are broken. ``hang, on``: whether the process
stands still. ``mute, how``: its answers get lost (``silent``) or break off (``broken``), or requests get lost
(``deaf``); empty for none. ``garbage, how``: its sums over RDMA are wrong, see ``results``; empty for none. The end of the connection is the end of the process: the sandbox frees its resources.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from . import idleness
from .line import Line

CONFIG = "emulated_mac.json"
"""File next to the package with ``machine`` and ``control``."""
RANK = "RECONCILER_RANK_CONFIG"
"""Set only for ranks, and for processes that are about to become one."""
MLX = "mlx.core"


def begin() -> None:
    """Patch this process; called at the start of every process of the machine's Python."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    config = json.loads(Path(__file__).parent.with_name(CONFIG).read_text(encoding="utf-8"))
    line = Line(config["control"], config["machine"])
    sys.meta_path.insert(0, _Finder(line))
    if RANK in os.environ:
        from . import network

        network.patch(line)
        _allow_tracing()


def _allow_tracing() -> None:
    """Let the sandbox hold this process at its exit, even if only its parents may by default (``PR_SET_PTRACER`` of
    prctl(2))."""
    if Path("/proc/sys/kernel/yama/ptrace_scope").exists():
        import ctypes

        ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)


class _Finder:
    """Finds the patched modules in the usual way, and patches each once it is loaded."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        patch = {MLX: self._mlx, idleness.MODULE: self._agent}.get(name)
        if patch is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, patch)  # type: ignore[assignment]
        return spec

    def _mlx(self, module: ModuleType) -> None:
        from . import gpu, jaccl

        gpu.patch(module, self._line)
        jaccl.patch(module, self._line)

    def _agent(self, module: ModuleType) -> None:
        idleness.patch(module, Path(__file__).parent.with_name(idleness.FILE))


class _Loader:
    def __init__(self, loader: Any, patch: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._patch = patch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)
