"""What a rank adds to a step of ``mlx_lm``: with a model that costs next to nothing, its own work is what is left."""

from __future__ import annotations

import json
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3

from reconciler.wire import SPOKEN
from reconciler.wire.codec import Hello, to_wire
from reconciler.wire.frames import encode
from reconciler.wire.sampling import Ending
from tests.bench.figures import Figure, alone, paired
from tests.runner.conftest import write_config, write_tokenizer
from tests.runner.ranks import each_rank, question, running

STREAMS = (1, 8, 32)
RANKS = (1, 2)
TOKENS = 400
SECONDS_MAX = 120.0
CONTEXT = 1024
FIRST = b'"type":"delta","request":"0"'
LAST = b'"type":"finished"'
LITTLE = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16, "head_dim": 8}
"""Two heads for each of two ranks."""


def measure(quick: bool) -> Iterator[Figure]:
    """A rank alone, and two, with each number of streams; beside them a loop around ``BatchGenerator``."""
    times, tokens = (2, 40) if quick else (7, TOKENS)
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        model = _write_model(Path(folder))
        for ranks in RANKS:
            with running(model, ranks, context=CONTEXT, batch_max=max(STREAMS)) as group:
                group.ready()
                for streams in STREAMS[:2] if quick else STREAMS:
                    pairs = [
                        (_ours(group.socket, streams, tokens), _bare(model, ranks, streams, tokens))
                        for _ in range(times)
                    ]
                    yield from _figures(ranks, streams, pairs)


def _figures(ranks: int, streams: int, pairs: list[tuple[float, float]]) -> Iterator[Figure]:
    mine, bare = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
    words = f"{'1 stream' if streams == 1 else f'{streams} streams'}, {ranks} rank{'s'[: ranks - 1]}"
    yield paired(f"step of no model, {words}", "us", mine, bare)
    added = [ours - theirs for ours, theirs in pairs]
    yield alone("the same: added by the runner", "us", added, "<= 100")


def _ours(path: str, streams: int, tokens: int) -> float:
    """Microseconds of a step, as a client of rank 0 sees the tokens of one of the streams.

    It reads bytes only: a client that understood them would need more of the machine than the rank.
    """
    asked = [
        question(f"{number}", "Count", tokens_max=tokens, ending=Ending(ignore_end=True))
        for number in range(streams)
    ]
    moments: list[float] = []
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SECONDS_MAX)
        client.connect(path)
        client.sendall(b"".join(encode(to_wire(message)) for message in (Hello("test", SPOKEN), *asked)))
        tail, ended = b"", 0
        while ended < streams:
            chunk = client.recv(1 << 16)
            if not chunk:
                raise RuntimeError("the rank has closed the connection")
            known, read = (tail.count(FIRST), tail.count(LAST)), tail + chunk
            moments += [time.perf_counter()] * (read.count(FIRST) - known[0])
            ended += read.count(LAST) - known[1]
            tail = read[-max(len(FIRST), len(LAST)) + 1 :]
    begin = len(moments) // 4  # until then streams begin
    return 1e6 * (moments[-1] - moments[begin]) / (len(moments) - 1 - begin)


def _bare(model: Path, ranks: int, streams: int, tokens: int) -> float:
    arguments = (str(model), str(streams), str(tokens))
    seconds: list[float] = each_rank(ranks, "tests.bench.bare_steps", *arguments, seconds=SECONDS_MAX)[0]
    return 1e6 * statistics.mean(seconds[len(seconds) // 4 :])


def _write_model(folder: Path) -> Path:
    """A model of one small layer, with weights that mean nothing."""
    write_tokenizer(folder)
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = {**write_config(folder, "qwen3"), **LITTLE, **heads}
    (folder / "config.json").write_text(json.dumps(config))
    model = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder
