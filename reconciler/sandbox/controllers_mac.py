"""The emulated parts of the controller's own Mac: its right to use the local network, and the names that it finds.

They affect a controller that is started with ``PYTHONPATH=$RECONCILER_HOME/sandbox/controller``: Python loads
``sitecustomize.py`` from there at its start (``emulated/controller.py``), which reads ``state.json`` next to it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .world import changes
from .world.state import World

PROGRAM = Path(__file__).parent / "emulated" / "controller.py"
STATE = "state.json"


class ControllersMac:
    """Writes that folder. ``port`` returns the port of a machine's SSH server."""

    def __init__(self, folder: Path, port: Callable[[str], int]) -> None:
        self._folder = folder
        self._port = port
        self._written: dict[str, Any] | None = None

    def put(self, world: World) -> None:
        state = self._state(world)
        if state == self._written:
            return
        if self._written is None:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            shutil.copyfile(PROGRAM, self._folder / "sitecustomize.py")
        draft = self._folder / ".state.json.new"
        draft.write_text(json.dumps(state), encoding="utf-8")
        draft.replace(self._folder / STATE)
        self._written = state

    def _state(self, world: World) -> dict[str, Any]:
        """Return the machines by name. A machine with a locked disk is not found by name, because mDNS does not run
        yet."""
        return {
            "private": world.controller_private,
            "ports": [self._port(machine.name) for machine in world.machines],
            "names": {
                f"{machine.name}.local": "" if machine.away_until == changes.AT_THE_LOCK else machine.lan
                for machine in world.machines
            },
        }
