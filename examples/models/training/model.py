"""Qwen3 in PyTorch, as small as it can be written: for training only, then MLX takes over.

The names of the parameters are those of the published Qwen3 checkpoints, which are also MLX's, so
that converting is writing a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """The sizes of the model; 8 query and 4 key heads split over 1, 2 and 4 ranks."""

    vocabulary: int = 1024
    hidden: int = 192
    layers: int = 4
    heads: int = 8
    key_heads: int = 4
    head: int = 32
    inner: int = 384
    theta: float = 10000.0
    epsilon: float = 1e-6
    positions: int = 4096

    def config(self, end: int, pad: int) -> dict[str, Any]:
        """Write `config.json` of the model, with the ids of the end token and of padding."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head,
            "intermediate_size": self.inner,
            "rms_norm_eps": self.epsilon,
            "rope_theta": self.theta,
            "max_position_embeddings": self.positions,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "hidden_act": "silu",
            "torch_dtype": "float32",
            "eos_token_id": end,
            "pad_token_id": pad,
        }


class Norm(nn.Module):
    """Root mean square norm over the last dimension."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Start as the identity scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x`."""
        return functional.rms_norm(x.float(), self.weight.shape, self.weight, self.epsilon)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn `x` (batch, heads, length, head) by the angles of its positions."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class Attention(nn.Module):
    """Grouped-query attention with normalised queries and keys."""

    def __init__(self, shape: Shape) -> None:
        """Make the four projections and the two norms."""
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k_proj = nn.Linear(shape.hidden, shape.key_heads * shape.head, bias=False)
        self.v_proj = nn.Linear(shape.hidden, shape.key_heads * shape.head, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)
        self.q_norm = Norm(shape.head, shape.epsilon)
        self.k_norm = Norm(shape.head, shape.epsilon)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Attend over `x` (batch, length, hidden), causally."""
        batch, length, _ = x.shape
        split = (batch, length, -1, self.shape.head)
        queries = self.q_norm(self.q_proj(x).view(split)).transpose(1, 2)
        keys = self.k_norm(self.k_proj(x).view(split)).transpose(1, 2)
        values = self.v_proj(x).view(split).transpose(1, 2).float()
        queries, keys = rotate(queries, cosine, sine), rotate(keys, cosine, sine)
        repeats = self.shape.heads // self.shape.key_heads
        keys = keys.repeat_interleave(repeats, dim=1)
        values = values.repeat_interleave(repeats, dim=1)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


class Mlp(nn.Module):
    """The gated feed-forward part of a layer."""

    def __init__(self, shape: Shape) -> None:
        """Make the three projections."""
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the part to `x`."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One layer: attention, then the feed-forward part, each on a normalised input."""

    def __init__(self, shape: Shape) -> None:
        """Make both parts."""
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Mlp(shape)
        self.input_layernorm = Norm(shape.hidden, shape.epsilon)
        self.post_attention_layernorm = Norm(shape.hidden, shape.epsilon)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """Apply the layer to `x` (batch, length, hidden)."""
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Body(nn.Module):
    """Embedding, layers and the last norm; exists to give the parameters their usual names."""

    def __init__(self, shape: Shape) -> None:
        """Make all layers."""
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.epsilon)


class Qwen3(nn.Module):
    """The whole model with tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        """Make the model with small random weights."""
        super().__init__()
        self.shape = shape
        self.model = Body(shape)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * shape.layers) ** 0.5 if last else 0.04)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the hidden states (batch, length, hidden) of `tokens` (batch, length)."""
        half = self.shape.head // 2
        steps = torch.arange(half, dtype=torch.float32) / half
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), self.shape.theta**-steps)
        cosine, sine = angles.cos(), angles.sin()
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, cosine, sine)
        out: Tensor = self.model.norm(x)
        return out

    def loss(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """Return the weighted mean loss of predicting each token of `tokens` from those before it.

        `weights` (batch, length) belongs to `tokens`: the weight of predicting that token.
        """
        targets, wanted = tokens[:, 1:].reshape(-1), weights[:, 1:].reshape(-1)
        hidden = self(tokens[:, :-1]).reshape(-1, self.shape.hidden)
        # Tokens without weight need no logits, which are the widest part of the model.
        kept = wanted > 0
        logits = functional.linear(hidden[kept], self.model.embed_tokens.weight).float()
        losses = functional.cross_entropy(logits, targets[kept], reduction="none")
        return (losses * wanted[kept]).sum() / wanted.sum()
