"""Weights to a model in memory: what ``mlx_lm`` does leniently or late is checked here first.

Written against mlx-lm 0.32.2.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from mlx_lm import utils
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load, load_model, sharded_load

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.launch import ExitCode, RankEnd, RopeScaling
from reconciler.wire.shards import INDEX
from reconciler.wire.weights import RECORD_NAME, SHARDS, Record

from .adapter import FOREIGN_ERRORS, Loaded, Tokenizer, compile_nothing_on_a_cpu, ending_of
from .files import ModelFiles, inspect, invalid_weights, read_layout, read_sampling
from .memory import replaced
from .positions import scaled
from .turn_ends import configured_ends

READ_TEXT = "Unable to read from file"


def load_shard(
    files: ModelFiles,
    group: Any,
    strategy: str,
    trust_remote_code: bool,
    rope_scaling: RopeScaling | None = None,
) -> Loaded:
    """Load the complete model (``group`` None) or this rank's share. Raises ``RankEnd(WEIGHTS)``.

    With a group this is a collective: it returns when every rank has loaded.
    """
    compile_nothing_on_a_cpu()
    path = str(files.directory)
    options: dict[str, Any] = {
        "tokenizer_config": {"trust_remote_code": trust_remote_code},
        "return_config": True,
        "trust_remote_code": trust_remote_code,
    }
    try:
        _check_tensors(files.directory, group if strategy == "pipeline" else None, trust_remote_code)
        with _positions_scaled(files, rope_scaling):
            if group is None:
                model, tokenizer, config = load(path, **options)
            else:
                _check_shard(files, strategy, trust_remote_code)
                model, tokenizer, config = sharded_load(path, **{f"{strategy}_group": group}, **options)
        check_batching(model, files.config.get("model_type"))
        nested = config.get("text_config") or {}
        vocabulary = int(config.get("vocab_size") or nested.get("vocab_size") or len(tokenizer))
        text = Tokenizer(tokenizer, configured_ends(files.config))
        return Loaded(model, text, vocabulary, read_sampling(files.directory))
    except FOREIGN_ERRORS as error:
        known = ending_of(error) or _unread(files, str(error)) if isinstance(error, RuntimeError) else None
        raise known or invalid_weights(f"cannot load {path}: {first_line(error)}") from error


def _unread(files: ModelFiles, text: str) -> RankEnd | None:
    """Return an end for lack of memory if a failed read went into unavailable memory, which MLX's CPU backend does not
    check.

    Raises ``RankEnd(WEIGHTS)`` if the files have changed.
    """
    if READ_TEXT not in text:
        return None
    inspect(str(files.directory))
    largest = max(file.stat().st_size for file in files.directory.glob(SHARDS))
    try:
        mmap.mmap(-1, largest).close()
    except (OSError, MemoryError):
        return RankEnd(ExitCode.MEMORY, f"this node has too little memory for the weights: {text}")
    return None


def check_batching(model: Any, kind: object) -> None:
    """Raise now what ``BatchGenerator`` would raise at the first prompt."""
    caches = [part for cache in make_prompt_cache(model) for part in getattr(cache, "caches", (cache,))]
    for cache in caches:
        if not hasattr(cache, "merge"):
            kept = type(cache).__name__
            raise invalid_weights(
                f"mlx-lm cannot answer several requests of {kind} models together: {kept} does not merge"
            )


def _check_shard(files: ModelFiles, strategy: str, trust_remote_code: bool) -> None:
    """Check for missing tensors, which ``sharded_load`` tolerates."""
    model, config = load_model(files.directory, lazy=True, strict=True, trust_remote_code=trust_remote_code)
    why = unsplittable(model, config, files.directory).get(strategy)
    if why:
        raise invalid_weights(why)


class _Requested(BaseException):
    """Stops ``sharded_load`` once it has named the files that it needs."""

    def __init__(self, files: set[str]) -> None:
        super().__init__()
        self.files = files


def stage(directory: Path, group: Any, trust_remote_code: bool = False) -> tuple[Any, tuple[str, ...]]:
    """Return a rank's stage of a pipeline, without reading tensors, and the weight files that mlx-lm would download for
    it.

    ``group`` needs only a size and a rank. Raises mlx-lm's errors.
    """
    models: list[Any] = []

    def load_one(*args: Any, **kwargs: Any) -> Any:
        model, config = load_model(*args, **kwargs)
        models.append(model)
        return model, config

    def ask(path: str, revision: str | None = None, allow_patterns: Any = None) -> Path:
        if isinstance(allow_patterns, set):
            raise _Requested(allow_patterns)
        return Path(path)

    with instead(load_model=load_one, _download=ask):
        try:
            sharded_load(str(directory), pipeline_group=group, trust_remote_code=trust_remote_code)
        except _Requested as requested:
            return models[-1], tuple(sorted(requested.files))
    raise AssertionError("mlx-lm loads a stage without asking for its files")


@contextmanager
def _positions_scaled(files: ModelFiles, scaling: RopeScaling | None) -> Iterator[None]:
    """Have mlx-lm load models with other positions for a while; ``sharded_load`` itself takes no ``model_config``."""
    if scaling is None:
        yield
        return
    change = scaled(files.config, scaling)
    load_plain = utils.load_model

    def load_scaled(*args: Any, **kwargs: Any) -> Any:
        return load_plain(*args, **{**kwargs, "model_config": change})

    with instead(load_model=load_scaled):
        yield


def instead(**functions: Any) -> AbstractContextManager[None]:
    """Replace functions in mlx-lm's own module for a while."""
    return replaced([(utils, name, function) for name, function in functions.items()])


def _check_tensors(directory: Path, pipeline: Any, trust_remote_code: bool) -> None:
    """Check that no needed file is an outline, which has a header but no tensors."""
    outlines = _outlines(directory)
    if not outlines:
        return
    needed = outlines
    if pipeline is not None:
        needed = outlines & set(stage(directory, pipeline, trust_remote_code)[1])
    if needed:
        raise invalid_weights(f"{directory} has only an outline of {min(needed)}, which this rank needs")


def _outlines(directory: Path) -> set[str]:
    try:
        record = from_wire(Record, json.loads((directory / RECORD_NAME).read_bytes()))
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, WireError) as error:
        raise invalid_weights(f"{directory / RECORD_NAME} cannot be read: {error}") from None
    marks = {name: (directory / name).stat() for name in record.outlines}
    return {name for name, mark in marks.items() if record.outlined(name, mark.st_size, mark.st_mtime_ns)}


def unsplittable(model: Any, config: Mapping[str, Any], directory: Path) -> dict[str, str]:
    """Return the strategies by which a model can never be split, with the reasons."""
    kind = config.get("model_type")
    found = {}
    if not hasattr(model, "shard"):
        found["tensor"] = f"mlx-lm cannot split {kind} models by tensor"
    if not hasattr(getattr(model, "model", None), "pipeline"):
        found["pipeline"] = f"mlx-lm cannot run {kind} models as a pipeline"
    elif not (directory / INDEX).exists():
        found["pipeline"] = f"a pipeline needs {INDEX}, which is missing"
    elif not (read := read_layout(directory)).indexed:
        found["pipeline"] = f"a pipeline needs an index: {read.note}"
    return found


def first_line(error: BaseException) -> str:
    """Return the first line of a foreign error, shortened; with the second one that it announces."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    announced = lines[1].strip() if lines[0].endswith(":") and len(lines) > 1 else ""
    return f"{lines[0]} {announced}".rstrip(" :")[:400]
