"""A hub with a small model, and a folder to fetch it into."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from .hub import Hub, serving

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def shard(name: str, size: int = 600_000) -> bytes:
    """A whole safetensors file with one tensor of random bytes."""
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + random.Random(name).randbytes(size)


def repository(seed: str = "") -> dict[str, bytes]:
    index = {"metadata": {}, "weight_map": {f"tensor-{at}": name for at, name in enumerate(SHARDS)}}
    return {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}" * 4000,
        "chat_template.jinja": b"{{ messages }}",
        "model.safetensors.index.json": json.dumps(index).encode(),
        **{name: shard(f"tensor-{at}{seed}") for at, name in enumerate(SHARDS)},
        "README.md": b"# not served",
        "pytorch_model.bin": b"not served either",
        "modeling_evil.py": b"raise SystemExit",
        "original/model-00001.safetensors": b"below",
    }


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(repository()) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "models" / "hub" / "org--tiny" / "rev"
