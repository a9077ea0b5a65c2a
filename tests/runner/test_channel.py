"""How the ranks of a group find each other before MLX does."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

from reconciler.runner import channel
from reconciler.wire.group import Join

from .ranks import configs, free_address


def test_rank_0_accepts_at_every_address_at_which_others_find_it(tmp_path: Path) -> None:
    first, second, third = configs(tmp_path, tmp_path, 3, rendezvous_seconds=20.0)
    third = dataclasses.replace(third, control=free_address())
    first = dataclasses.replace(first, also_control=(third.control,))
    joins = [Join(rank, 1, first.secret, "1", "2", "weights") for rank in range(3)]
    found = {}

    def follow(rank: int) -> None:
        with channel.follow((second, third)[rank - 1], joins[rank]) as connection:
            found[rank] = connection.getpeername()[1]

    threads = [threading.Thread(target=follow, args=(rank,)) for rank in (1, 2)]
    for thread in threads:
        thread.start()
    connections = channel.lead(first, joins[0])
    for thread in threads:
        thread.join(30)
    for connection in connections.values():
        connection.close()
    assert sorted(connections) == [1, 2]
    assert {
        rank: int(config.control.rpartition(":")[2]) for rank, config in ((1, second), (2, third))
    } == found
