"""A rank that gets no memory says so, and ends with the status for that."""

from __future__ import annotations

import json
import math
import resource
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.wire.launch import ExitCode, Phase
from tests.runner.ranks import Rank, configs, short_directory

pytestmark = pytest.mark.processes

SPARE_BYTES = 512 * 2**20
TENSOR_BYTES = 24 * 2**20
"""Of one that MLX reads at once. When it cannot read a larger one, which it reads in parts of 32 MiB side by side, it may write
into memory that it has freed (``ParallelFileReader`` of mlx/io/load.cpp, 0.32)."""
LAYERS = 60


def with_large_layers(folder: Path) -> None:
    """Four GiB of layers, of which the file holds but the place: they are a hole."""
    config = json.loads((folder / "config.json").read_text())
    width = TENSOR_BYTES // (4 * config["hidden_size"])
    changed = {"num_hidden_layers": LAYERS, "intermediate_size": width}
    (folder / "config.json").write_text(json.dumps({**config, **changed}))
    file = folder / "model.safetensors"
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = content[8 + length :]
    end = len(tensors)
    layer = {name: header.pop(name) for name in list(header) if name.startswith("model.layers.")}
    first = {name: tensor for name, tensor in layer.items() if name.startswith("model.layers.0.")}
    for number in range(LAYERS):
        for name, tensor in first.items():
            wide = config["intermediate_size"] if ".mlp." in name else 0
            shape = [width if each == wide else each for each in tensor["shape"]]
            size = 4 * math.prod(shape)
            header[name.replace(".0.", f".{number}.", 1)] = {
                "dtype": "F32",
                "shape": shape,
                "data_offsets": [end, end + size],
            }
            end += size
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + tensors)
        stream.truncate(8 + len(text) + end)


def address_space(pid: int) -> int:
    """The most that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmPeak:"))


@pytest.mark.needs("linux")
def test_too_little_memory_for_the_weights_is_told_from_everything_else(
    endless: Path, tmp_path: Path
) -> None:
    with _waiting(endless, tmp_path / "usual") as rank:
        rank.begin()
        rank.wait_for(Phase.READY)
        usual = address_space(rank.process.pid)
    folder = Path(shutil.copytree(endless, tmp_path / "large"))
    with_large_layers(folder)
    with _waiting(folder, tmp_path / "limited") as rank:
        limit = usual + SPARE_BYTES
        resource.prlimit(rank.process.pid, resource.RLIMIT_AS, (limit, limit))
        rank.begin()
        assert rank.exit_code(60) == ExitCode.MEMORY, rank.text()
        assert "too little memory" in rank.last.detail
        assert rank.last.phase == Phase.LOADING


@contextmanager
def _waiting(model: Path, folder: Path) -> Iterator[Rank]:
    """A rank that waits until it is told to begin: one whose limit came later would have its memory already."""
    folder.mkdir()
    with short_directory() as sockets:
        (config,) = configs(model, sockets, 1)
        with Rank(config, folder, spare=True) as rank:
            yield rank
