"""A rank that gets no memory says so, and ends with the status for that."""

from __future__ import annotations

import json
import resource
import shutil
import struct
from pathlib import Path

from reconciler.wire.launch import ExitCode, Phase
from tests.runner.ranks import running

SPARE_BYTES = 512 * 2**20
VOCABULARY = 2**24


def with_a_large_vocabulary(folder: Path) -> None:
    """Embeddings of four GiB, of which the file holds but the place: they are a hole."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": VOCABULARY}))
    file = folder / "model.safetensors"
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    tensors = content[8 + length :]
    size = VOCABULARY * config["hidden_size"] * 4
    header["model.embed_tokens.weight"] = {
        "dtype": "F32",
        "shape": [VOCABULARY, config["hidden_size"]],
        "data_offsets": [len(tensors), len(tensors) + size],
    }
    text = json.dumps(header).encode()
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text + tensors)
        stream.truncate(8 + len(text) + len(tensors) + size)


def address_space(pid: int) -> int:
    """The most that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmPeak:"))


def test_too_little_memory_for_the_weights_is_told_from_everything_else(
    endless: Path, tmp_path: Path
) -> None:
    with running(endless, 1) as group:
        usual = address_space(group.ready().ranks[0].process.pid)
    folder = Path(shutil.copytree(endless, tmp_path / "large"))
    with_a_large_vocabulary(folder)
    with running(folder, 1) as group:
        rank = group.ranks[0]
        limit = usual + SPARE_BYTES
        resource.prlimit(rank.process.pid, resource.RLIMIT_AS, (limit, limit))
        assert rank.exit_code(60) == ExitCode.MEMORY, rank.text()
        assert "too little memory" in rank.last.detail
        assert rank.last.phase == Phase.LOADING
