"""Train the tiny demonstration model and write it in the format that MLX loads.

    python examples/models/training/train.py --out examples/models/tiny

Needs PyTorch (CPU) and the packages in requirements.txt; takes under half an hour on two cores.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

try:
    import torch
    from torch import Tensor
except ModuleNotFoundError:
    sys.exit(
        "train.py needs PyTorch to train the model: install examples/models/training/"
        "requirements.txt into an environment of its own and run this with its python"
    )

from convert import write_model
from corpus import Corpus
from dialogue import Piece
from model import Qwen3, Shape
from tokenizer import END, END_OF_TEXT, save_tokenizer, train_tokenizer
from tokenizers import Tokenizer

STEPS = 4800
DRILL_STEPS = 400
TOKENS = 2048
LENGTHS = (128, 256, 512)
LENGTH_SHARES = (0.40, 0.30, 0.30)
MATRIX_RATE = 0.02
OTHER_RATE = 0.004


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    out: Path
    steps: int
    minutes: float
    seed: int
    save_every: float
    bfloat16: bool


def letter_tokens(tokenizer: Tokenizer) -> list[str]:
    """List the tokens that are plain ASCII letters, the stuff that names are made of."""
    return sorted(t for t in tokenizer.get_vocab() if t.isascii() and t.isalpha())


class Batches:
    """Rows of dialogues, cut to one length per batch, without padding."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        """Start the corpus at `seed`."""
        self.tokenizer = tokenizer
        self.corpus = Corpus(seed, letter_tokens(tokenizer))

    def row(self, length: int, drill: bool) -> tuple[list[int], list[float]]:
        """Fill one row with dialogues; the last is cut where the row ends."""
        tokens: list[int] = []
        weights: list[float] = []
        while len(tokens) < length:
            pieces: list[Piece] = self.corpus.drill() if drill else self.corpus.dialogue(longer=length >= 512)
            encoded = self.tokenizer.encode_batch_fast([text for text, _ in pieces])
            for one, (_, weight) in zip(encoded, pieces, strict=True):
                tokens += one.ids
                weights += [weight] * len(one.ids)
        return tokens[:length], weights[:length]

    def next(self, drill: bool) -> tuple[Tensor, Tensor]:
        """Make one batch: tokens and weights, both (rows, length)."""
        length = self.corpus.rng.choices(LENGTHS, LENGTH_SHARES)[0] if not drill else LENGTHS[0]
        rows = [self.row(length, drill) for _ in range(TOKENS // length)]
        return torch.tensor([r[0] for r in rows]), torch.tensor([r[1] for r in rows])


def rate(step: int, steps: int) -> float:
    """Say which part of the learning rate holds at `step`: a short rise, then a cosine to zero."""
    rise = 100
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def optimizers(model: Qwen3) -> list[torch.optim.Optimizer]:
    """Give the matrices of the layers to Muon, which needs fewer steps, and the rest to AdamW."""
    matrices = [w for n, w in model.named_parameters() if w.dim() == 2 and "embed" not in n]
    others = [w for n, w in model.named_parameters() if w.dim() != 2 or "embed" in n]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_RATE, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(others, lr=OTHER_RATE, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def progress(settings: Settings, started: float) -> Iterator[tuple[int, int]]:
    """Yield each step with the number of steps; stop early when the minutes are over."""
    limit = settings.minutes * 60
    for step in range(settings.steps):
        if limit and time.monotonic() - started > limit:
            return
        yield step, settings.steps


def train(settings: Settings, tokenizer: Tokenizer) -> Qwen3:
    """Train from nothing, print how it goes, and save now and then."""
    torch.manual_seed(settings.seed)
    model, batches = Qwen3(Shape()), Batches(tokenizer, settings.seed + 1)
    steppers = optimizers(model)
    full = [group["lr"] for stepper in steppers for group in stepper.param_groups]
    print(f"{sum(w.numel() for w in model.parameters()):,} parameters, {settings.steps} steps")
    started = saved = time.monotonic()
    recent: list[float] = []
    for step, steps in progress(settings, started):
        groups = [group for stepper in steppers for group in stepper.param_groups]
        for group, top in zip(groups, full, strict=True):
            group["lr"] = top * rate(step, steps)
        tokens, weights = batches.next(drill=step < DRILL_STEPS)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=settings.bfloat16):
            loss = model.loss(tokens, weights)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for stepper in steppers:
            stepper.step()
            stepper.zero_grad(set_to_none=True)
        recent = [*recent[-99:], loss.item()]
        now = time.monotonic()
        if step % 50 == 49:
            spent = (now - started) / 60
            left = spent / (step + 1) * (steps - step - 1)
            mean = sum(recent) / len(recent)
            print(f"step {step + 1}/{steps}  loss {mean:.4f}  {spent:.1f} min, {left:.1f} left", flush=True)
        if now - saved > settings.save_every * 60:
            saved = now
            save(settings.out, model, tokenizer)
    return model


def save(out: Path, model: Qwen3, tokenizer: Tokenizer) -> None:
    """Write everything that MLX and transformers need into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    ids = tokenizer.get_vocab()
    write_model(out, model, ids[END], ids[END_OF_TEXT])
    template = Path(__file__).with_name("chat_template.jinja").read_text(encoding="utf-8")
    save_tokenizer(tokenizer, out, template)


def read_settings() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write the model to")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many steps to train")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many; 0: never")
    parser.add_argument("--seed", type=int, default=0, help="fixes the corpus and the first weights")
    parser.add_argument("--save-every", type=float, default=5, help="minutes between two savings")
    parser.add_argument("--float32", action="store_true", help="train without bfloat16 products")
    given = parser.parse_args()
    return Settings(given.out, given.steps, given.minutes, given.seed, given.save_every, not given.float32)


def main() -> None:
    """Train the tokenizer, then the model, and write both."""
    settings = read_settings()
    torch.set_num_threads(2)
    tokenizer = train_tokenizer(Corpus(settings.seed).texts(4000), Shape().vocabulary)
    print(f"{tokenizer.get_vocab_size()} tokens in the vocabulary", flush=True)
    model = train(settings, tokenizer)
    save(settings.out, model, tokenizer)
    print(f"written to {settings.out}")


if __name__ == "__main__":
    main()
