"""Reads and checks the ``config.json`` that the agent wrote for this rank."""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.launch import (
    CONFIG_VARIABLE,
    CONTEXT_MAX,
    ExitCode,
    RankConfig,
    RankEnd,
    RopeKind,
    RopeScaling,
)


def read_config(path: str) -> RankConfig:
    """Return the rank's configuration. Raises ``RankEnd(CONFIG)`` with what is wrong."""
    if not path:
        raise _invalid(f"{CONFIG_VARIABLE} is not set: it names the rank's config.json")
    try:
        config = from_wire(RankConfig, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, WireError) as error:
        raise _invalid(f"cannot read {path}: {error}") from None
    for holds, problem in _checks(config):
        if not holds:
            raise _invalid(f"{path}: {problem}")
    return config


def _checks(config: RankConfig) -> list[tuple[bool, str]]:
    size = config.size
    alone = size == 1
    return [
        (size >= 1, f"size is {size}, but must be at least 1"),
        (0 <= config.id.rank < size, f"rank {config.id.rank} is not one of a group of {size}"),
        (alone or len(config.addresses) == size, f"{len(config.addresses)} addresses for {size} ranks"),
        (alone or all(map(_is_address, config.addresses)), "addresses are not all ip:port"),
        (alone or _is_address(config.control), f"control is {config.control!r}, expected ip:port"),
        (all(map(_is_address, config.also_control)), "also_control is not all ip:port"),
        (alone or bool(config.secret), "secret is empty"),
        (
            alone or config.backend in ("ring", "jaccl"),
            f"backend {config.backend!r} is not supported, expected 'ring' or 'jaccl'",
        ),
        (alone or config.backend != "jaccl" or _is_matrix(config), "devices do not join all neighbours"),
        (
            alone or config.strategy in ("tensor", "pipeline"),
            f"strategy is {config.strategy!r}, expected 'tensor' or 'pipeline'",
        ),
        (2 <= config.context <= CONTEXT_MAX, f"context is {config.context}, expected 2 to {CONTEXT_MAX}"),
        (config.batch_max >= 1, f"batch_max is {config.batch_max}, but must be at least 1"),
        (config.rendezvous_seconds > 0, "rendezvous_seconds is not above 0"),
        (config.verbs_seconds > 0, "verbs_seconds is not above 0"),
        (
            config.rope_scaling is None or _is_scaling(config.rope_scaling),
            f"rope_scaling is {config.rope_scaling}, expected a factor above 1 of {', '.join(RopeKind.ALL)}",
        ),
        (config.prefix_cache_bytes >= 0, "prefix_cache_bytes is below 0"),
        (config.keep_alive_seconds >= 0, "keep_alive_seconds is below 0"),
        (config.id.rank != 0 or bool(config.socket), "socket is empty"),
    ]


def _is_scaling(scaling: RopeScaling) -> bool:
    return scaling.kind in RopeKind.ALL and scaling.factor > 1 and scaling.original > 0


def _is_matrix(config: RankConfig) -> bool:
    """Return whether there is a device for every pair of a mesh, or for all neighbours of a ring."""
    size, devices = config.size, config.devices
    if len(devices) != size or any(len(row) != size or row[rank] for rank, row in enumerate(devices)):
        return False
    neighbours = all(row[(rank + 1) % size] and row[rank - 1] for rank, row in enumerate(devices))
    return neighbours and (config.prefer_ring or sum(map(bool, sum(devices, ()))) == size * (size - 1))


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536


def _invalid(sentence: str) -> RankEnd:
    return RankEnd(ExitCode.CONFIG, sentence)
