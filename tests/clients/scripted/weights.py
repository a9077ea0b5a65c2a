"""Writes the weights of the scripted model: its code, its scripts, and the tokenizer of the tiny one."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cluster import ROOT

TINY = ROOT / "examples/models/tiny"
CONTEXT = 262_144
"""Tokens: agents send prompts of 100 KB, of which the tiny tokenizer makes 40,000."""


def write(folder: Path, scripts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Fill a folder, which must not be there yet."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(TINY / name, folder)
    tokenizer = json.loads((TINY / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "model_max_length": CONTEXT}))
    shutil.copy(Path(__file__).parent / "model_file.py", folder)
    config = {
        **json.loads((TINY / "config.json").read_text()),
        "model_file": "model_file.py",
        "max_position_embeddings": CONTEXT,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 1,
        "hidden_size": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "scripts.json").write_text(json.dumps(scripts, indent=1))
    _write_one(folder / "model.safetensors", "loudness")


def _write_one(file: Path, name: str) -> None:
    """Write a file of tensors with one number, 1."""
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.0))
