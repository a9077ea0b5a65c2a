"""Sockets have short names, and say so when their directory is too deep."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from reconciler.wire.launch import RankId
from reconciler.wire.paths import SOCKET_PATH_BYTES_MAX, agent_socket, rank_socket, shim_socket

ID = RankId("llama", 0, 1, 0)


def test_each_socket_of_a_node_has_a_name_of_its_own() -> None:
    paths = {agent_socket("/run", "llama.0.1.0"), rank_socket("/run", ID), shim_socket("/run", ID)}
    paths |= {agent_socket("/run", "b"), rank_socket("/run", RankId("llama", 0, 2, 0))}

    assert len(paths) == 5
    assert {Path(path).parent for path in paths} == {Path("/run")}
    assert agent_socket("/run", "a") == agent_socket("/run", "a")


def test_the_length_of_a_name_does_not_depend_on_what_it_belongs_to() -> None:
    assert len(agent_socket("/run", "a" * 250)) == len(rank_socket("/run", ID))


def test_the_longest_path_can_be_bound_and_a_longer_one_names_the_remedy() -> None:
    with tempfile.TemporaryDirectory(prefix="r-") as top:
        room = SOCKET_PATH_BYTES_MAX - len(rank_socket(top, ID)) - 1
        deep = Path(top) / ("d" * room)
        deep.mkdir()
        path = rank_socket(str(deep), ID)
        assert len(path) == SOCKET_PATH_BYTES_MAX == 103
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)

        with pytest.raises(
            ValueError, match="has 104 bytes, the most is 103: choose a shorter RECONCILER_HOME"
        ):
            rank_socket(str(deep) + "d", ID)


@pytest.mark.parametrize("letter", ["d", "ü", "家", "😀"])
def test_the_length_of_a_path_is_counted_in_bytes_whatever_the_language_of_the_home(letter: str) -> None:
    room = SOCKET_PATH_BYTES_MAX - len(rank_socket("/", ID)) - 1
    letters, rest = divmod(room, len(os.fsencode(letter)))
    home = f"/{letter * letters}{'d' * rest}"

    assert len(os.fsencode(rank_socket(home, ID))) == SOCKET_PATH_BYTES_MAX
    with pytest.raises(ValueError, match="has 104 bytes, the most is 103"):
        rank_socket(f"{home}d", ID)
