"""One rank of a ring that takes one model after the other: ``python -m tests.runner.model.one_of_many CONFIG JOBS ANSWERS``.

Everything that a rank does is done by the product, but nothing is said on the control channel: here all ranks know all
steps before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.runner.decode.batch import Batch
from reconciler.runner.decode.sampling import Agreement
from reconciler.runner.group import control_channel, neighbours
from reconciler.runner.group.ring import init_ring
from reconciler.runner.model.files import check_division, inspect
from reconciler.runner.model.generator import Generator
from reconciler.runner.model.loading import load_shard
from reconciler.runner.process.config import read_config
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.group import Insertion, Join, Reading, Step
from reconciler.wire.sampling import Sampling

TOKENS = 12
GREEDY = Sampling(temperature=0.0)
PROMPTS = [[(number * 37 + 11 * length) % 250 + 2 for number in range(length)] for length in (5, 200, 23, 12)]
"""Shorter and longer than the windows, and than what is read at once. The last one comes when others have spoken."""
LATER_STEP = 4
OWN = "@rank"
"""In the name of a folder: each rank has one of its own."""


def answers(folder: Path, group: Any, strategy: str) -> dict[str, Any]:
    """Greedy answers to ``PROMPTS``, and the logits from which this rank would have taken each answer's tokens."""
    files = inspect(str(folder))
    if group is not None and strategy == "tensor":
        check_division(files, group.size())
    loaded = load_shard(files, group, strategy, False)
    batch = Batch(Generator(loaded, Agreement(group, loaded.vocabulary).on), ProgressPipe(None))
    tokens: list[list[int]] = [[] for _ in PROMPTS]
    for inserted in _insertions():
        uids = range(batch.next_uid, batch.next_uid + len(inserted))
        read = (Reading(tuple(uids)),) if inserted else ()
        for token in batch.run(Step(batch.next_step, insert=inserted, read=read))[1]:
            tokens[token.uid].append(token.id)
        if batch.next_step > LATER_STEP and not batch.live:
            break
    batch.settle()
    logits = [_logits(loaded.model, *both) for both in zip(PROMPTS, tokens, strict=True)]
    return {"tokens": tokens, "logits": logits}


def _insertions() -> Iterator[tuple[Insertion, ...]]:
    *first, last = (Insertion(tuple(prompt), TOKENS, GREEDY) for prompt in PROMPTS)
    for number in range(100):
        yield {0: tuple(first), LATER_STEP: (last,)}.get(number, ())


def _logits(model: Any, prompt: list[int], tokens: list[int]) -> list[list[float]]:
    """Of each token that was said."""
    every = model(mx.array([prompt + tokens[:-1]]))
    found: list[list[float]] = every[0, len(prompt) - 1 :].tolist()
    return found


def ring_of(config_path: str) -> tuple[Any, int]:
    """Form the group, which every rank does; return it with this rank's number."""
    config = read_config(config_path)
    with neighbours.listening(config) as listener:
        mine = Join(config.id.rank, config.id.epoch, "", "", "", listener.getsockname()[1])
        peers = control_channel.lead(config, mine) if mine.rank == 0 else control_channel.follow(config, mine)
        left, right = neighbours.meet(config, listener, peers.ring)
    return init_ring(config, left, right, sys.stdin.fileno()), config.id.rank


def main() -> None:
    config_path, jobs, answers_path = sys.argv[1:]
    group, rank = ring_of(config_path)
    found = {
        key: answers(Path(folder.replace(OWN, str(rank))), group, strategy)
        for key, folder, strategy in json.loads(jobs)
    }
    Path(answers_path).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
