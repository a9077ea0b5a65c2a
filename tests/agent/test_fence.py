"""Who may change something on a node, whatever becomes of the file in which that is kept."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.agent.server import Fence


class Disk:
    """Where an agent keeps its token."""

    def __init__(self) -> None:
        self.kept, self.full = 2, False

    def token(self) -> int:
        return self.kept

    def save_token(self, token: int) -> None:
        if self.full:
            raise OSError("no space left on device")
        self.kept = token


def test_a_controller_whose_successor_came_while_the_disk_was_full_may_do_nothing_more() -> None:
    disk: Any = Disk()
    fence = Fence(disk)
    disk.full = True
    with pytest.raises(OSError, match="no space"):
        fence.admits(3)
    disk.full = False
    assert not fence.admits(2)
    assert fence.admits(3)
    assert (disk.kept, fence.token) == (3, 3)
