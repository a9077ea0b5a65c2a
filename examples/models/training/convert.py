"""Write the trained weights as MLX loads them: one safetensors file, float32."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from model import Qwen3
from safetensors.torch import save_file


def write_model(out: Path, model: Qwen3, end: int, pad: int) -> None:
    """Write weights, `config.json` and `generation_config.json` into `out`.

    `end` and `pad` are the ids of the token that ends a message and of padding. The parameters
    already have the names that MLX's qwen3 expects.
    """
    weights = {n: w.detach().to(torch.float32).contiguous() for n, w in model.state_dict().items()}
    # The folder may be read while training goes on: replace the file as a whole.
    part = out / "model.safetensors.part"
    save_file(weights, str(part), metadata={"format": "mlx"})
    part.chmod(0o644)
    part.replace(out / "model.safetensors")
    config = model.shape.config(end, pad)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    generation = {"eos_token_id": [end, pad], "pad_token_id": pad, "do_sample": False}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
