"""One rank of a ring that reads the same prompts in two ways, which sum in another order: ``python -m
tests.runner.model.two_orders CONFIG JOBS ANSWERS``."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.runner.model.long_prompt import deviation, read
from reconciler.runner.model.memory import replaced

from .one_of_many import ring_of

TOKENS, PIECE = 300, 128
ring_sum = mx.distributed.all_sum


def main() -> None:
    config_path, jobs, answers_path = sys.argv[1:]
    group, _ = ring_of(config_path)
    found = [apart(Path(folder), group, *job) for folder, *job in json.loads(jobs)]
    Path(answers_path).write_text(json.dumps(found))


def apart(folder: Path, group: Any, strategy: str, kind: str, prompts: int) -> list[float]:
    """How far apart the two are after each of some prompts, where ranks exchange numbers of a type."""
    loaded = load_shard(inspect(str(folder)), group, strategy, False)
    found = []
    for seed in range(prompts):
        prompt = random.Random(seed).choices(range(2, loaded.vocabulary), k=TOKENS)
        readings = []
        for summed in (ring_sum, gathered_sum):
            with replaced([(mx.distributed, "all_sum", _in(getattr(mx, kind), summed))]):
                readings.append(read(loaded, prompt, lambda: None, PIECE))
        found.append(deviation(*readings))
    return found


def _in(kind: Any, summed: Callable[..., Any]) -> Callable[..., Any]:
    """Most operations of a CPU take ``float32`` alone; what ranks send and add up is what differs between transports."""

    def rounded(array: Any, **more: Any) -> Any:
        return summed(array.astype(kind), **more).astype(array.dtype)

    return rounded


def gathered_sum(array: Any, *, group: Any = None, stream: Any = None) -> Any:
    """The sum in the order of ranks, as a mesh adds up; a ring begins at another rank for each part."""
    rows = mx.distributed.all_gather(array[None], group=group, stream=stream)
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


if __name__ == "__main__":
    main()
