"""One rank of a ring that sums arrays: ``python -m tests.runner.group.summing CONFIG FOUND``."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx

from reconciler.runner.group import ring
from tests.runner.model.one_of_many import ring_of

SHAPES = ((1,), (3,), (1, 7), (4, 1, 33), (2, ring.SMALL_BYTES_MAX // 2))
"""Odd ones, which MLX cannot halve, and one beyond the bound."""


def main() -> None:
    config_path, found_path = sys.argv[1:]
    group, rank = ring_of(config_path)
    distributed: Any = mx.distributed
    gather, gathered = distributed.all_gather, []

    def counted(array: Any, **options: Any) -> Any:
        gathered.append(array.shape)
        return gather(array, **options)

    distributed.all_gather = counted
    found = []
    for dtype in (mx.float32, mx.bfloat16, mx.int32):
        for shape in SHAPES:
            array: Any = (mx.random.normal(shape, key=mx.random.key(7 + rank)) * 1000).astype(dtype)
            ways: Any = (distributed.all_sum(array, group=group), ring._all_sum(array, group=group))
            found.append([hashlib.sha256(memoryview(way.view(mx.uint8))).hexdigest() for way in ways])
    Path(found_path).write_text(json.dumps({"sums": found, "gathered": gathered}))


if __name__ == "__main__":
    main()
