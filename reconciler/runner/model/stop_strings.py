"""Finds a request's stop strings, which end an answer, with ``mlx_lm``'s machine for control strings.

Written against mlx-lm 0.32.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlx_lm.generate import TextStateMachine


class Scanner:
    """Splits text into segments ``(state, text)``, with control strings cut out and possible ones held back."""

    def __init__(self, machine: Any, depths: Mapping[int, int], initial: str) -> None:
        self._state = machine.make_state(initial)
        self._depths = depths
        self.found: str | None = None
        """The final control string, once it has come."""

    @property
    def over(self) -> bool:
        """Return whether a final control string has come: nothing after it belongs to the answer."""
        return self._state[0] is None

    def segments(self, text: str) -> list[tuple[str, str]]:
        """Return one entry per state passed; the last is the current one."""
        before = self._state[3] + text
        (name, node, states, held), segments = TextStateMachine.split(self._state, text)
        if name is None:
            passed = sum(len(part) for _, part in segments)
            self.found = before[passed : len(before) - len(held)]
        else:
            # ``split`` holds back more: all since it last saw no control string begin.
            possible = len(held) - self._depths.get(id(node), 0)
            segments[-1] = (name, segments[-1][1] + held[:possible])
            held = held[possible:]
        self._state = (name, node, states, held)
        return list(segments)

    def rest(self) -> str:
        """Return the text that is held at the end of the answer."""
        self._state, text, _ = TextStateMachine.flush(self._state)
        return str(text)


def stop_scanner(stop: Sequence[str]) -> Scanner:
    """Return a scanner with the one state ``normal`` that ends after any of these strings."""
    machine = TextStateMachine({"normal": [(text, None) for text in stop]} if stop else None)
    return Scanner(machine, _depths(machine), "normal")


def _depths(machine: Any) -> dict[int, int]:
    """Return the number of characters that each node of a machine has read, by the node's ``id``."""
    depths: dict[int, int] = {}
    level = [root for root, _ in machine._states.values()]
    depth = 0
    while level:
        depths.update((id(node), depth) for node in level)
        level = [child for node in level for edge, child in node.items() if len(edge) == 1]
        depth += 1
    return depths
