"""Measures how long it takes to add up an array over all ranks, and writes the bandwidth to result.json."""

import argparse
import json
import time
from pathlib import Path

import mlx.core as mx


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=64, help="size of the array")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    group = mx.distributed.init(strict=True)
    ones = mx.ones((options.mib * 2**20 // 4,), dtype=mx.float32)
    mx.eval(mx.distributed.all_sum(ones, group=group))  # the first one also sets up buffers
    began = time.perf_counter()
    for _ in range(options.rounds):
        total = mx.distributed.all_sum(ones, group=group)
        mx.eval(total)
    seconds = (time.perf_counter() - began) / options.rounds
    if total[0].item() != group.size():
        raise SystemExit(f"expected {group.size()} in each place, got {total[0].item()}")
    # A ring sends and receives 2 (n - 1) / n of the array on each rank.
    moved = 2 * (group.size() - 1) / group.size() * options.mib
    result = {
        "ranks": group.size(),
        "mib": options.mib,
        "milliseconds": round(seconds * 1000, 3),
        "mibPerSecond": round(moved / seconds, 1),
    }
    print(f"rank {group.rank()}: {json.dumps(result)}", flush=True)
    if group.rank() == 0:
        with Path("result.json").open("w", encoding="utf-8") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
