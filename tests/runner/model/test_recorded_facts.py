# ruff: noqa: B023 - each function is called where it is written
"""What a rank reads from its configuration, a model's files and foreign errors, line by line.

``UPDATE_GOLDEN=1 pytest tests/runner/model/test_recorded_facts.py`` writes the files again. A line has the input's name, and
what is read from it or why it is refused. A line that differs is another answer to the same input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.runner import examination
from reconciler.runner.embedding import layout
from reconciler.runner.embedding.weights import _named
from reconciler.runner.group.control_channel import _problem
from reconciler.runner.model import files, loading, memory, positions, token_text
from reconciler.runner.model.caches import reusable
from reconciler.runner.model.files import read_sampling, sampling_of
from reconciler.runner.model.mlx_errors import meaning
from reconciler.runner.model.turn_ends import configured_ends, turn_end
from reconciler.runner.process.config import read_config
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.codec import to_wire
from reconciler.wire.group import Join
from reconciler.wire.launch import RankConfig, RankEnd, RankId, RopeKind, RopeScaling
from reconciler.wire.question import Pooling
from reconciler.wire.sockets import split_address
from tests.recorded import compare
from tests.runner.lines import RECORDED, Lines

PAIR = RankConfig(
    id=RankId("llama", 0, 1, 0), size=2, model_path="/models/tiny", strategy="tensor", backend="ring", addresses=("10.0.0.1:5000", "10.0.0.2:65535"),
    control="10.0.0.1:4000", secret="s", socket="/run/r.sock", context=128, batch_max=1, rendezvous_seconds=0.1, verbs_seconds=0.1,
)  # fmt: skip
ALONE: Mapping[str, Any] = {
    "size": 1,
    "addresses": (),
    "control": "",
    "secret": "",
    "strategy": "",
    "backend": "",
}
BOTH = (("", "a"), ("b", ""))
RING = (("", "a", "", "b"), ("c", "", "d", ""), ("", "e", "", "f"), ("g", "", "h", ""))
MESH = tuple(tuple("" if at == to else "x" for to in range(4)) for at in range(4))
FOUR: Mapping[str, Any] = {
    "size": 4,
    "addresses": tuple(f"10.0.0.{at}:5000" for at in range(1, 5)),
    "backend": "jaccl",
}
BAD_ADDRESSES = ("", "x", ":5", "x:", "x:0", "x:1", "x:65535", "x:65536", "x:y", "x:-1", "a:b:5", "x:5 ")


def scaling(kind: str = RopeKind.ALL[0], factor: float = 2.0, original: int = 100) -> RopeScaling:
    return RopeScaling(kind, factor, original)


CONFIGS: Sequence[Mapping[str, Any]] = (
    {}, ALONE, *({**ALONE, name: getattr(PAIR, name)} for name in ("addresses", "control", "secret")), {**ALONE, "devices": BOTH}, {"size": 0}, {"size": 3}, {"size": -1},
    *({"id": RankId("llama", 0, 1, rank)} for rank in (-1, 0, 1, 2)), {"id": RankId("llama", 0, 1, 1), "socket": ""}, {"socket": ""}, {"secret": ""},
    *({"addresses": (PAIR.addresses[0], text)} for text in BAD_ADDRESSES), *({"control": text} for text in BAD_ADDRESSES), *({"also_control": ("x:5", text)} for text in BAD_ADDRESSES),
    *({"backend": text} for text in ("", "mpi", "jaccl")), *({"strategy": text} for text in ("", "data", "pipeline")), *({"context": count} for count in (1, 2, 1 << 20, (1 << 20) + 1)),
    *({"batch_max": count} for count in (0, 1, 2)), *({name: value} for name in ("rendezvous_seconds", "verbs_seconds", "keep_alive_seconds") for value in (0.0, -0.1, 0.1)), *({"prefix_cache_bytes": count} for count in (-1, 0, 1)),
    *({"rope_scaling": each} for each in (scaling(), scaling("odd"), scaling(factor=1.0), scaling(factor=1.01), scaling(original=0), scaling(original=1))), *({"rope_scaling": scaling(kind)} for kind in RopeKind.ALL),
    {"backend": "jaccl", "devices": BOTH}, {"backend": "jaccl", "devices": BOTH[:1]}, {"backend": "jaccl", "devices": (("", "a"), ("", ""))}, {"backend": "jaccl", "devices": (("x", "a"), ("b", ""))}, {"backend": "jaccl", "devices": (("", "a", ""), ("b", ""))},
    {**FOUR, "devices": MESH}, {**FOUR, "devices": RING}, {**FOUR, "devices": RING, "prefer_ring": True}, {**FOUR, "devices": MESH, "prefer_ring": True}, {**FOUR, "devices": (*RING[:3], ("", "", "h", ""))}, {**FOUR, "devices": (*RING[:3], ("", "", "h", "")), "prefer_ring": True},
    {**FOUR, "devices": (*RING[:3], ("g", "", "", "")), "prefer_ring": True}, {**FOUR, "devices": (("", "a", "", ""), *RING[1:]), "prefer_ring": True}, {**FOUR, "devices": (*MESH[:3], ("x", "", "x", ""))},
)  # fmt: skip


def told(ask: Callable[[], object], within: Path) -> object:
    """An answer, or the end of the rank, without the folder of the test."""
    try:
        found = ask()
    except RankEnd as end:
        return f"END {end.code} {end.sentence}".replace(str(within), "DIR")
    return found.replace(str(within), "DIR") if isinstance(found, str) else found


def test_configurations_are_checked_as_recorded(tmp_path: Path) -> None:
    lines = Lines()
    path = tmp_path / "config.json"
    for number, changes in enumerate(CONFIGS):
        config = dataclasses.replace(PAIR, **changes)
        path.write_text(json.dumps(to_wire(config)))
        lines.add(
            f"{number} {sorted(changes)}", told(lambda: read_config(str(path)) == config, tmp_path), 200
        )
    lines.add("none", told(lambda: read_config(""), tmp_path), 200)
    path.write_text("[]")
    lines.add("list", str(told(lambda: read_config(str(path)), tmp_path))[:40], 200)
    lines.add("missing", told(lambda: read_config(str(tmp_path / "no")), tmp_path), 200)
    lines.add("addresses", [split_address(text) for text in ("1.2.3.4:5", "a:b:6")])
    compare(RECORDED / "facts_configurations.txt", lines)


TEXTS = (
    "", "odd", "connection to a peer was lost", "[jaccl] Send failed with errno=5", "[jaccl] recv failed with errno=5", "Unable to allocate 5 bytes", "Out of memory", "OutOfMemory", "insufficient memory", "[malloc] x", "[metal::malloc] x",
    "maximum allowed buffer size", "maximum Metal buffer size", "larger than the maximum working set", "command buffer execution failed", "kIOGPUCommandBufferCallbackErrorX", "no Metal device available", "[metal::Device] Unable to x", "[metal::CommandEncoder] failed", "Failed to create Metal shared event",
    "only supported to direct neighbors", "only supported from direct neighbors", "Group split not supported", "sum_scatter not supported", "unsupported dtype for JACCL", "couldn't allocate protection domain", "couldn't create completion queue", "register memory region failed",
    *(f"creating the queue pair failed with x ({code})" for code in (16, 96, 5)), *(f"changing queue pair to RTR failed with errno {code}" for code in (16, 96, 5, 160)), "couldn't create queue pair", "no IPv4-mapped GID", "could not find device", "could not open device", "send failed with error code", "recv failed with error code", "buffer can be registered once",
    *(f"[jaccl] {what}" for what in ("the device", "the configuration", "the full connectivity", "the jaccl mesh", "device names", "up to", "you need to provide", "other")), "cannot initialize jaccl", "couldn't initialize any backend", "valid values for backend",
    *(f"[ring] {what}" for what in ("rank", "it is required", "you need to provide", "other")), "couldn't connect (error: 65)", "couldn't connect (error: 9999)", "couldn't bind socket (error: 48)", "couldn't bind socket (error: 9999)",
    "couldn't listen", "couldn't create socket", "couldn't enable reuseaddr", "accept failed", "can't parse address", "couldn't other",
)  # fmt: skip


def test_errors_and_endings_are_understood_as_recorded() -> None:
    lines = Lines()
    for text in TEXTS:
        lines.add(text, meaning(text))
    for name in ("EHOSTUNREACH", "ENETUNREACH", "EADDRINUSE"):
        numbered = f"(error: {getattr(errno, name)})"
        lines.add(
            name, [meaning(f"couldn't connect {numbered}"), meaning(f"couldn't bind socket {numbered}")]
        )
    for said in (
        "",
        "one",
        "one:\ntwo",
        "one\ntwo",
        "one:",
        "one:\n",
        " \none:\n  two \nthree",
        "x" * 500,
        "one: :\n",
    ):
        lines.add(ascii(said), [loading.first_line(ValueError(said)), loading.first_line(KeyError())], 500)
    for length in (159, 160, 161):
        lines.add(f"{length} long", examination._shortened("x" * length)[-3:])
    for error in (
        ValueError("split."),
        TypeError("split..\nx"),
        KeyError("model_type"),
        ValueError("Model type x not supported."),
        RuntimeError("odd:\n why"),
    ):
        problems = [examination._model_problem(config, error) for config in ({}, {"model_type": "k" * 70})]
        lines.add(f"{error!a}", [examination._refusal(error), *problems], 500)
    join = Join(1, 2, "a", "b", "c")
    for changes in (
        {},
        {"epoch": 3},
        {"mlx": "z"},
        {"mlx_lm": "z"},
        {"weights": "z"},
        {"ring": 5},
        {"epoch": 3, "weights": "z"},
    ):
        other = dataclasses.replace(join, **changes)
        lines.add(
            f"{changes}",
            [
                _problem(join, {1: other}),
                _problem(join, {2: other, 1: join}),
                _problem(join, {2: other, 1: other}),
            ],
            300,
        )
    lines.add("nobody", _problem(join, {}))
    compare(RECORDED / "facts_errors.txt", lines)


VALUES: Sequence[Any] = (
    None,
    True,
    False,
    "1",
    [],
    -1.1,
    -1,
    -0.1,
    0,
    0.009,
    0.01,
    0.5,
    1,
    1.0,
    1.1,
    2,
    2.1,
    50,
    100,
    101,
    float("inf"),
    float("nan"),
)


ENDS: Sequence[Any] = (None, 5, [5, 6], True, -1, "5", [True, None, -2, 0], 0, {})
SCALINGS: Sequence[Mapping[str, Any]] = (
    {}, {"rope_scaling": None}, {"rope_scaling": {"mscale": 1, "factor": 9}}, {"rope_parameters": {"rope_theta": 1}},
    {"rope_parameters": {"a": 1}, "rope_scaling": {"b": 2}}, {"rope_parameters": {}, "rope_scaling": {"b": 2}},
)  # fmt: skip


def test_defaults_and_positions_are_read_as_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = Lines()
    for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "other"):
        for value in VALUES:
            found, odd = sampling_of({name: value, "min_p": 0.5} if name != "min_p" else {name: value})
            given = {key: each for key, each in dataclasses.asdict(found).items() if each is not None}
            lines.add(f"{name} {value!r}", [given, odd])
    for content in (None, "{", "[]", "5", '{"top_p": 0.5}', '{"top_p": 5, "top_k": "x", "min_p": 0.25}'):
        caplog.clear()
        (tmp_path / "generation_config.json").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "generation_config.json").write_text(content)
        lines.add(
            f"file {content}",
            [read_sampling(tmp_path), [record.getMessage()[:60] for record in caplog.records]],
            300,
        )
    for ends in ENDS:
        whole: Any = {"eos_token_id": ends}
        for config in (
            whole,
            {"text_config": whole},
            {"eos_token_id": 1, "text_config": whole},
            {"text_config": ends},
        ):
            lines.add(f"ends {config}", configured_ends(config))
    for old in SCALINGS:
        for config in (
            old,
            {"text_config": {**old, "x": 1}, "rope_scaling": {"c": 3}},
            {**old, "text_config": None},
        ):
            lines.add(f"scaled {config}", positions.scaled(config, scaling(factor=4)), 300)
    compare(RECORDED / "facts_defaults.txt", lines)


def test_ends_of_turns_are_found_as_recorded() -> None:
    lines = Lines()
    special = {1: "<end>", 2: "<end>more", 3: "", 4: "<other>", 5: "<think>"}
    forms: Mapping[str, str] = {
        "plain": "u{u}|a{a}<end>", "space": "u{u}|a{a} \n<end>\n", "longest": "u{u}|a{a}<end>more", "none": "u{u}|a{a}", "text": "u{u}|a{a}x<end>", "marker": "u{u}|a{a}<other>",
        "thought": "u{u}|t{t}<end>a{a}<end>", "thought apart": "u{u}|t{t}<think>a{a}<end>", "no thought": "u{u}|a{a}<end><other>", "empty": "", "twice": "u{u}a{a}<other>a{a}<end>",
    }  # fmt: skip
    for name, form in forms.items():

        def render(messages: Sequence[Mapping[str, Any]], form: str = form) -> str:
            last = messages[-1]
            return (
                form.replace("{u}", messages[0]["content"])
                .replace("{a}", last["content"])
                .replace("{t}", last.get("reasoning", ""))
            )

        for markers in ((), ("<other>x",), ("a<end>b", "c"), ("<end>more",)):
            lines.add(f"{name} {markers}", turn_end(render, special, markers))
        lines.add(f"{name} without tokens", turn_end(render, {}, ()))
    compare(RECORDED / "facts_turns.txt", lines)


def shard(path: Path, tensors: Mapping[str, int], extra: int = 0) -> None:
    header, at = {}, 0
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * (at + extra))


def test_folders_of_models_are_judged_as_recorded(tmp_path: Path) -> None:
    lines = Lines()
    lines.add("no folder", told(lambda: files.inspect(str(tmp_path / "none")), tmp_path), 200)
    for number, content in enumerate((None, "", "[]", "5", "{", '{"a": 1}')):
        folder = tmp_path / f"config{number}"
        folder.mkdir()
        if content is not None:
            (folder / "config.json").write_text(content)
        shard(folder / "model.safetensors", {"a": 3, "b": 2})
        said = told(lambda: [files.inspect(str(folder)).bytes, files.inspect(str(folder)).digest], tmp_path)
        lines.add(f"config {content}", str(said)[:100], 200)
    cases: Sequence[tuple[Mapping[str, Mapping[str, int]], Mapping[str, str] | str | None, int]] = (
        ({}, None, 0), ({"model.safetensors": {"a": 1}}, None, 0), ({"model.safetensors": {"a": 1}}, None, 1), ({"model.safetensors": {"a": 1}}, None, -1), ({"model-00001-of-00002.safetensors": {"a": 1}}, None, 0),
        ({"model-00001-of-00002.safetensors": {"a": 1}, "model-00002-of-00002.safetensors": {"b": 1}}, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}, 0),
        ({"model-00001-of-00002.safetensors": {"a": 1}}, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}, 0),
        ({"model.safetensors": {"a": 1}}, {"b": "model.safetensors"}, 0), ({"model.safetensors": {"a": 1}}, "{", 0), ({"model.safetensors": {"a": 1}}, "[]", 0),
    )  # fmt: skip
    model: Any = SimpleNamespace(shard=1, model=SimpleNamespace(pipeline=1))
    bare: Any = SimpleNamespace()
    for number, (shards, index, extra) in enumerate(cases):
        folder = tmp_path / f"shards{number}"
        folder.mkdir()
        for name, tensors in shards.items():
            shard(folder / name, tensors, extra)
        if index is not None:
            text = index if isinstance(index, str) else json.dumps({"weight_map": index})
            (folder / "model.safetensors.index.json").write_text(text)
        said = told(
            lambda: [files.read_layout(folder).indexed, bool(files.read_layout(folder).note)], tmp_path
        )
        lines.add(f"shards {number}", said, 200)
        for name, one in (("both", model), ("none", bare)):
            lines.add(
                f"shards {number} {name}",
                str(told(lambda: loading.unsplittable(one, {"model_type": "k"}, folder), tmp_path))[:110],
                200,
            )
    for config in (
        {},
        {"num_attention_heads": 8},
        {"num_attention_heads": 9},
        {"num_key_value_heads": 3},
        {"num_attention_heads": "9"},
        {"text_config": {"num_attention_heads": 9}},
        {"text_config": {"num_attention_heads": 9}, "num_attention_heads": 8},
        {"text_config": 5},
    ):
        found = files.ModelFiles(tmp_path, config, 0, "")
        lines.add(
            f"divided {config}",
            [told(lambda: files.check_division(found, size), tmp_path) for size in (1, 2, 3)],
            300,
        )
    compare(RECORDED / "facts_folders.txt", lines)


def test_models_for_vectors_are_recognized_as_recorded(tmp_path: Path) -> None:
    lines = Lines()
    counter = itertools.count()

    def folder_of(modules: object, pooling: object) -> Path:
        folder = tmp_path / f"m{next(counter)}"
        (folder / "1_Pooling").mkdir(parents=True)
        if modules is not None:
            (folder / "modules.json").write_text(json.dumps(modules))
        if pooling is not None:
            (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        return folder

    def module(kind: str, path: str = "") -> dict[str, str]:
        return {"type": f"sentence_transformers.models.{kind}", "path": path}

    usual = [module("Transformer"), module("Pooling", "1_Pooling"), module("Normalize", "2_Normalize")]
    poolings: Sequence[Any] = (
        None, {}, {"pooling_mode_lasttoken": True}, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, {"pooling_mode_cls_token": True}, {"pooling_mode_cls_token": 1}, {"pooling_mode_max_tokens": True},
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, {"pooling_mode": "lasttoken"}, {"pooling_mode": "mean"}, {"pooling_mode": "odd"}, {"pooling_mode": 5}, {"pooling_mode": "cls", "pooling_mode_lasttoken": True}, {"pooling_mode": "mean", "pooling_mode_max_tokens": True},
    )  # fmt: skip
    declared = Pooling("cls", normalize=False)
    for pooling in poolings:
        folder = folder_of(usual, pooling)
        lines.add(f"pool {pooling}", told(lambda: layout.pooling_of(folder, {}), folder), 200)
    listed: Sequence[Any] = (
        None,
        [],
        {},
        [5],
        [{}],
        [module("Transformer")],
        [module("Transformer"), module("Normalize")],
        [module("Dense")],
        [module("Transformer"), module("Dense", "x")],
        usual[:2],
    )
    for modules in listed:
        folder = folder_of(modules, {"pooling_mode": "cls"})
        for given in (None, declared):
            lines.add(
                f"modules {str(modules)[:60]} {given is not None}",
                told(lambda: layout.pooling_of(folder, {}, given), folder),
                200,
            )
        for pool in ("last", "mean"):
            for ends in (None, 5, [5, 6], [], "x"):
                found = files.ModelFiles(folder, {"eos_token_id": ends}, 0, "")
                if modules in (None, []):
                    lines.add(f"end {modules} {pool} {ends}", layout.end_token(found, Pooling(pool)))
    for config in (
        {"is_causal": False},
        {"is_causal": True},
        {"is_causal": None},
        {"use_bidirectional_attention": True},
        {"use_bidirectional_attention": "all"},
        {"use_bidirectional_attention": False},
        {"text_config": {"is_causal": False}},
        {"text_config": {"use_bidirectional_attention": True}},
        {"text_config": 5, "hidden_size": 3},
        {"hidden_size": 8, "text_config": {"hidden_size": 9}},
        {"text_config": {"hidden_size": 9}},
        {"hidden_size": "8"},
        {"hidden_size": None, "text_config": {"hidden_size": 9}},
    ):
        lines.add(
            f"{config}",
            [
                str(told(lambda: layout.pooling_of(tmp_path, config, declared), tmp_path))[:60],
                layout.hidden_size(config),
            ],
            200,
        )
    for names in ((), ("model.a", "b"), ("a", "lm_head.weight"), ("a", "b"), ("modela",)):
        lines.add(f"named {names}", sorted(_named(dict.fromkeys(names, 1))))
    compare(RECORDED / "facts_vectors.txt", lines)


def test_progress_is_told_as_recorded() -> None:
    lines = Lines()
    reads, writes = os.pipe()
    progress = ProgressPipe(None)
    progress._descriptor = writes  # without the thread, so that each report is one that is told at once

    def said(name: str) -> None:
        progress._write()
        told_of = [json.loads(text) for text in os.read(reads, 1 << 16).decode().splitlines()]
        lines.add(name, [{key: value for key, value in each.items() if value} for each in told_of])

    said("starting")
    for phase in ("loading", "verbs", "ready", "draining"):
        progress.enter(phase, "" if phase == "ready" else phase[0] * 801)
        lines.add(phase, [progress.phase, progress.step_tokens])
        said(f"in {phase}")
    progress.report_detail("d" * 900)
    said("detail")
    progress.step()
    progress.step(3)
    progress.reading(7)
    progress.demand(2)
    progress.loaded(5, 9)
    progress.demand(2)
    lines.add("step", progress.step_tokens)
    said("step")
    os.set_blocking(writes, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writes, b" " * 4096)
    progress._write()
    lines.add("full", [len(progress._unsent), progress._changed.is_set()])
    os.set_blocking(reads, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.read(reads, 1 << 20)
    progress.step(1)
    said("room again")
    os.close(reads)
    progress._write()
    os.close(writes)
    compare(RECORDED / "facts_progress.txt", lines)


class RoPE(dict[str, int]):
    """A module that turns vectors by their positions."""


class Rotary(RoPE):
    """Another one."""

    def __init__(self, **values: int) -> None:
        super().__init__(values)
        self.base = 5


class Linear(Rotary):
    """One that does not."""


def test_caches_and_decoders_are_told_apart_as_recorded() -> None:
    lines = Lines()
    from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, RotatingKVCache

    made: Mapping[str, Callable[[], Any]] = {
        "usual": lambda: [KVCache(), KVCache()], "windows": lambda: [KVCache(), RotatingKVCache(8)], "states": lambda: [ArraysCache(2)], "listed": lambda: [CacheList(KVCache(), ArraysCache(1))], "foreign": lambda: [KVCache(), ChunkedKVCache(4)], "none": list,
    }  # fmt: skip
    for name, caches in made.items():
        model: Any = SimpleNamespace(make_cache=caches)
        for sizes in (None, [], [[0, 1]], [[at, 1] for at in range(6)], [[at, 1] for at in range(7)]):
            lines.add(f"{name} {None if sizes is None else len(sizes)}", reusable(model, sizes))
        lines.add(f"{name} kept", [memory._tokens_max(each) for each in caches()])
    for value in (None, 0, 1, -1, True, 2.0, "8"):
        lines.add(f"kept {value!r}", memory._tokens_max(SimpleNamespace(max_size=value)))
    lines.add("nested", [memory._nested(shape, 7) for shape in ((), (0,), (2,), (2, 3), (1, 0, 2))])
    for decoder in (
        {"type": "ByteLevel"},
        {"type": "Odd"},
        {"type": "Strip", "stop": 0},
        {"type": "Strip", "stop": 1},
        {"type": "Replace", "pattern": {"String": "x"}},
        {"type": "Replace", "pattern": {"String": "xy"}},
        {"type": "Replace", "pattern": {"Regex": "x"}},
        {"type": "Fuse"},
        {"type": "Metaspace"},
        {"type": "WordPiece"},
    ):
        lines.add(f"{decoder}", token_text._joins(decoder))
    lines.add(
        "bytes",
        [
            len(token_text.BYTES),
            token_text.BYTES["a"],
            token_text.BYTES["\u0120"],
            token_text.BYTES["\u010a"],
            sorted(token_text.BYTES.values()) == list(range(256)),
        ],
    )
    model = SimpleNamespace(
        named_modules=lambda: [(kind.__name__, kind(a=1, __b=2)) for kind in (RoPE, Rotary, Linear)]
    )
    lines.add("positions", list(positions._positions(model)))
    compare(RECORDED / "facts_caches.txt", lines)
