"""Folders of weights as they lie on disks: each is served if mlx-lm serves it right, else it is refused with what to change.

Each seed draws one: how a build is split, what its index says, what lies beside it, and what is missing.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model, quantize_model

from reconciler.agent.weights.files import Weights
from reconciler.runner.examination import examine
from reconciler.runner.model.files import inspect
from reconciler.runner.model.loading import load_shard
from reconciler.wire.launch import RankEnd

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
INDEXES = (
    "right",
    "right",
    "absent",
    "of other files",
    "names one more",
    "of other tensors",
    "damaged",
    "empty",
)
BESIDE = (
    "", "", "a copy", "another build", "a linked copy", "consolidated.safetensors", "pytorch_model.bin",
    "model-q4_k_m.gguf", "._model.safetensors", "model.safetensors.part", "4bit/model.safetensors",
)  # fmt: skip
LOST = ("", "", "", "a file", "the end of a file", "what a link leads to")
FOLDERS = 120


@dataclass(frozen=True)
class Build:
    """The tensors of a model in one form, and what its config says of that."""

    tensors: dict[str, mx.array]
    config: dict[str, Any]


@pytest.fixture(scope="module")
def builds(layered: Path) -> dict[str, Build]:
    model, _ = load_model(layered)
    config = json.loads((layered / "config.json").read_text())
    found = {"f32": Build(dict(tree_flatten(model.parameters())), config)}
    for name, dtype in (("bf16", mx.bfloat16), ("f16", mx.float16)):
        tensors = {key: tensor.astype(dtype) for key, tensor in found["f32"].tensors.items()}
        found[name] = Build(tensors, {**config, "torch_dtype": name})
    for bits in (4, 8):
        model, _ = load_model(layered)
        model, changed = quantize_model(model, config, 32, bits)
        found[f"q{bits}"] = Build(dict(tree_flatten(model.parameters())), changed)
    return found


class Folder:
    """One folder, as a seed draws it."""

    def __init__(self, path: Path, builds: dict[str, Build], like: Path, seed: int) -> None:
        rng = Random(seed)
        self.path, self.blobs = path, path.parent / "blobs"
        self.blobs.mkdir()
        shutil.copytree(like, path, ignore=shutil.ignore_patterns("*.safetensors*", "config.json"))
        self.form = rng.choice(sorted(builds))
        self.build, self.other = builds[self.form], builds["q8" if self.form != "q8" else "f16"]
        (path / "config.json").write_text(json.dumps(self.build.config))
        self.linked = rng.random() < 0.3
        self.files = self._split(rng.choice((1, 1, 2, 3)), rng)
        self.index, self.beside, self.lost = rng.choice(INDEXES), rng.choice(BESIDE), rng.choice(LOST)
        self._write_index()
        self._put_beside()
        self._lose(rng)

    @property
    def doubtful(self) -> bool:
        """Whether it is refused although mlx-lm may serve it: a tensor is in two files, of which the file system decides which
        it reads last; or an index names a file more than there are, as during a download."""
        return self.index == "names one more" or self._twice()

    def _twice(self) -> bool:
        seen: set[str] = set()
        for path in sorted(self.path.glob("model*.safetensors")):
            found = set(map(str, mx.load(str(path)))) if path.exists() else set()
            if seen & found:
                return True
            seen |= found
        return False

    def __str__(self) -> str:
        parts = f"{self.form} in {len(self.files)}, index {self.index}, beside {self.beside or 'nothing'}"
        return f"{parts}, lost {self.lost or 'nothing'}{', linked' * self.linked}"

    def _split(self, count: int, rng: Random) -> dict[str, list[str]]:
        names = (
            [SINGLE]
            if count == 1
            else [f"model-{n:05}-of-{count:05}.safetensors" for n in range(1, count + 1)]
        )
        files: dict[str, list[str]] = {name: [] for name in names}
        for at, tensor in enumerate(sorted(self.build.tensors)):
            files[names[at] if at < count else rng.choice(names)].append(tensor)
        for name, tensors in files.items():
            self._write(name, {tensor: self.build.tensors[tensor] for tensor in tensors}, self.linked)
        return files

    def _write(self, name: str, tensors: dict[str, mx.array], linked: bool = False) -> None:
        target = self.blobs / f"{len(list(self.blobs.iterdir()))}.safetensors" if linked else self.path / name
        target.parent.mkdir(exist_ok=True)
        mx.save_safetensors(str(target), tensors, metadata={"format": "mlx"})
        if linked:
            (self.path / name).symlink_to(Path("..") / "blobs" / target.name)

    def _write_index(self) -> None:
        right = {tensor: name for name, tensors in self.files.items() for tensor in tensors}
        first = next(iter(right))
        content: Any = {
            "right": right,
            "of other files": {
                tensor: f"model-{n % 7 + 1:05}-of-00007.safetensors" for n, tensor in enumerate(right)
            },
            "names one more": {
                **right,
                "model.layers.9.mlp.up_proj.weight": "model-00009-of-00009.safetensors",
            },
            "of other tensors": {f"{tensor}_2": name for tensor, name in right.items()},
            "empty": {},
            "damaged": {first: 1},
        }.get(self.index)
        if content is not None:
            (self.path / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": content}))

    def _put_beside(self) -> None:
        if self.beside == "a copy":
            self._write("model copy.safetensors", self.build.tensors)
        elif self.beside == "a linked copy":
            (self.path / "model-latest.safetensors").symlink_to(sorted(self.files)[0])
        elif self.beside == "another build":
            self._write("model-old.safetensors", self.other.tensors)
        elif self.beside.endswith(".safetensors") and not self.beside.startswith("."):
            self._write(self.beside, self.other.tensors)
        elif self.beside:
            (self.path / self.beside).write_bytes(b"\0" * 100)

    def _lose(self, rng: Random) -> None:
        file = self.path / rng.choice(sorted(self.files))
        if self.lost == "a file":
            file.unlink()
        elif self.lost == "the end of a file":
            file.write_bytes(file.read_bytes()[:-64])
        elif self.lost:
            file.unlink()
            file.symlink_to(self.blobs / "gone.safetensors")

    def served_by_mlx(self) -> bool:
        """Whether mlx-lm loads it, and with the tensors that are meant."""
        try:
            model, _ = load_model(self.path)
        except (OSError, RuntimeError, ValueError, LookupError):
            return False
        return equal(model, self.build)

    def problem(self) -> str:
        """What is wrong with it, as its node, its runtime or its rank says first; empty where it is served right."""
        report = Weights(self.path.parent).report(self.path.name)
        if report.problem:
            return report.problem
        examined = examine(self.path)
        if "problem" in examined:
            return str(examined["problem"])
        try:
            loaded = load_shard(inspect(str(self.path)), None, "tensor", trust_remote_code=False)
        except RankEnd as end:
            return end.sentence
        assert equal(loaded.model, self.build), f"{self}: other tensors than are meant"
        return ""


def equal(model: nn.Module, build: Build) -> bool:
    found = dict(tree_flatten(model.parameters()))
    return found.keys() == build.tensors.keys() and all(
        bool(mx.array_equal(found[name], tensor)) for name, tensor in build.tensors.items()
    )


@pytest.mark.parametrize("seed", range(FOLDERS))
def test_a_folder_is_served_if_mlx_lm_serves_it_right_and_else_it_says_what_to_change(
    builds: dict[str, Build], layered: Path, tmp_path: Path, seed: int
) -> None:
    folder = Folder(tmp_path / "weights", builds, layered, seed)
    right, problem = folder.served_by_mlx(), folder.problem()
    if right and not folder.doubtful:
        assert problem == "", str(folder)
    else:
        assert re.search(r"\.safetensors", problem), f"{folder}: {problem!r}"
