"""One rank that steps through ``mlx_lm``'s batch generator and does nothing else.

Run as ``python -m tests.bench.bare_steps CONFIG MODEL STREAMS TOKENS FOUND``, by each rank of a ring; a rank alone needs no
ring. It writes the seconds of each step.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from mlx_lm.generate import BatchGenerator
from mlx_lm.utils import load, sharded_load

from reconciler.runner.process.config import read_config
from tests.runner.model.one_of_many import ring_of

PROMPT = (5, 6, 7, 8)


def main() -> None:
    config_path, model_path, streams, tokens, found_path = sys.argv[1:]
    group = ring_of(config_path)[0] if read_config(config_path).size > 1 else None
    model: Any = load(model_path)[0] if group is None else sharded_load(model_path, tensor_group=group)[0]
    seconds = []
    generator: Any = BatchGenerator(model, completion_batch_size=int(streams))
    generator.insert([list(PROMPT)] * int(streams), max_tokens=[int(tokens)] * int(streams))
    while True:
        began = time.perf_counter()
        said = generator.next()[1]
        if len(said) == int(streams):
            seconds.append(time.perf_counter() - began)
        elif seconds:
            break
    Path(found_path).write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
