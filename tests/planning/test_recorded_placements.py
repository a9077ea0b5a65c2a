"""Random clusters and what is placed on them, line by line as it was: also the guesses about caches of many architectures.

A change that is meant shows itself here: ``UPDATE_GOLDEN=1 pytest tests/planning/test_recorded_placements.py`` writes the
files again.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.planning.context.guessed_cache import guessed
from reconciler.planning.transport.link_addresses import all_addresses
from reconciler.resources import Manifest
from reconciler.state import AllocateEpoch, NodeName
from tests.planning.macs import mac, port
from tests.recorded import compare, digest, plain
from tests.worlds import World, deployment, fabric, model, node

RECORDED = Path(__file__).parent / "recorded"
GIB = 2**30
CLUSTERS, PASSES = 90, 4
TAINT = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}

# --- caches --------------------------------------------------------------------------------------------

BASE: dict[str, Any] = {
    "model_type": "any",
    "num_attention_heads": 16,
    "num_hidden_layers": 6,
    "hidden_size": 1024,
}
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": 4},
    {"num_key_value_heads": 4, "head_dim": 128},
    {"torch_dtype": "float32"},
    {"dtype": "float32", "num_kv_heads": 2},
    {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128},
    {
        "model_type": "deepseek_v2",
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 96,
    },
    {"sliding_window": 512, "sliding_window_pattern": 3},
    {"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 3},
    {
        "sliding_window": 512,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
        "swa_num_key_value_heads": 2,
    },
    {"layer_types": ["linear_attention", "linear_attention", "full_attention"] * 2, "num_key_value_heads": 2},
    {"full_attention_interval": 3, "num_key_value_heads": 2, "linear_num_value_heads": 8},
    {"hybrid_override_pattern": "M*-EM*"},
    {"layers_block_type": ["mamba", "attention", "mamba", "mlp", "recurrent", "attention"]},
    {"model_type": "mamba", "state_size": 16},
    {"num_kv_shared_layers": 2, "num_key_value_heads": 4},
    {"attn_layer_indices": [1, 4], "ssm_state_size": 64},
    {
        "text_config": {
            "num_attention_heads": 8,
            "num_hidden_layers": 4,
            "hidden_size": 512,
            "num_key_value_heads": 2,
        }
    },
    {
        "num_attention_heads": None,
        "n_head": 12,
        "hidden_size": None,
        "n_embd": 768,
        "n_layer": 5,
        "num_hidden_layers": None,
    },
    {"num_attention_heads": None, "num_hidden_layers": None},
    {"num_key_value_heads": [4, 2, 2, 4, 1, 1]},
    {"num_attention_heads": "16", "hidden_size": -1},
)


def test_caches_are_guessed_as_they_were() -> None:
    lines = []
    for variant, strategy, ranks in itertools.product(VARIANTS, ("tensor", "pipeline"), (1, 2, 3, 4)):
        config = {name: value for name, value in {**BASE, **variant}.items() if value is not None}
        lines.append(f"{variant} {strategy} {ranks}: {guessed(config, strategy, ranks)}")
    compare(RECORDED / "caches.txt", lines)


# --- clusters ------------------------------------------------------------------------------------------


def cluster(chance: random.Random) -> World:
    """Two to six machines, some with cables, and one to three deployments of different models."""
    names = [NodeName(f"n{number}") for number in range(chance.randint(2, 6))]
    manifests: list[Manifest] = [node(name, **_machine(chance)) for name in names]
    pairs = [pair for pair in itertools.combinations(names, 2) if chance.random() < 0.7]
    used = dict.fromkeys(names, 1)
    links = []
    for one, other in pairs if chance.random() < 0.7 else ():
        links.append((f"{one}/{used[one]}", f"{other}/{used[other]}"))
        used[one], used[other] = used[one] + 1, used[other] + 1
    if links:
        manifests.append(fabric("studios", *links, pool="10.77.0.0/16"))
    models = ["tiny", "other"][: chance.randint(1, 2)]
    manifests += [model(name, name) for name in models]
    for number in range(chance.randint(1, 3)):
        manifests.append(deployment(f"d{number}", model=chance.choice(models), **_wish(chance)))
    world = World(manifests)
    world.memory_of = {name: chance.choice((8, 16, 64, 192, 512)) * GIB for name in names}
    world.weights = {name: (chance.choice((1, 5, 30, 60, 150)) * GIB, _config(chance)) for name in models}
    world.hosts = {names[1]: names[0]} if chance.random() < 0.15 else {}
    if chance.random() < 0.6:
        _as_macs(world, links, chance)
    return world


def _machine(chance: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {"labels": {"rack": chance.choice("ab")}}
    if chance.random() < 0.2:
        found["memory"] = {chance.choice(("reserve", "limit")): f"{chance.choice((4, 16))}GiB"}
    if chance.random() < 0.15:
        found["taints"] = [TAINT]
    return found


def _wish(chance: random.Random) -> dict[str, Any]:
    least = chance.choice((1, 1, 2, 2, 3, 4))
    found: dict[str, Any] = {
        "nodes": chance.choice((least, {"min": least, "max": min(8, least + chance.randint(0, 4))})),
        "strategy": chance.choice(("tensor", "pipeline", "auto")),
        "replicas": chance.choice((1, 1, 1, 2)),
    }
    serving = {
        "context": chance.choice(("auto", 2048, 32768, 131072)),
        "maxBatch": chance.choice((1, 4, 16)),
        "kvCache": chance.choice(("2GiB", "24GiB", "64GiB")),
    }
    found["serving"] = {name: serving[name] for name in serving if chance.random() < 0.5}
    if chance.random() < 0.4:
        found["transport"] = chance.choice(
            (["ring-lan"], ["jaccl", "ring"], ["ring"], ["jaccl", "jaccl-ring", "ring-lan"])
        )
    placement: dict[str, Any] = {}
    if chance.random() < 0.2:
        placement["nodeSelector"] = {"rack": "a"}
    if chance.random() < 0.15:
        placement["tolerations"] = [{"key": "dedicated", "value": "x"}]
    return {**found, "placement": placement} if placement else found


def _config(chance: random.Random) -> dict[str, Any]:
    heads = chance.choice((8, 12, 32, 64))
    return {
        "model_type": "qwen3", "num_attention_heads": heads, "num_key_value_heads": chance.choice((1, 4, heads)),
        "head_dim": chance.choice((64, 128)), "hidden_size": 64 * heads, "intermediate_size": 128 * heads,
        "num_hidden_layers": chance.choice((4, 30, 61)), "torch_dtype": "bfloat16",
        "max_position_embeddings": chance.choice((4096, 131072)),
    }  # fmt: skip


def _as_macs(world: World, links: list[tuple[str, str]], chance: random.Random) -> None:
    """Every node is a Mac, joined as declared but for a cable that may be out."""
    world.system = "Darwin"
    addresses = all_addresses(world.desired())
    ports: dict[NodeName, list[Any]] = {name: [] for name in world.memory_of}  # type: ignore[misc]
    for one, other in links:
        out = chance.random() < 0.1
        for end, peer in ((one, other), (other, one)):
            (name, receptacle), (there, at) = end.split("/"), peer.split("/")
            address = next(str(each.ip) for key, each in addresses.items() if str(key) == end)
            found = port(int(receptacle), (NodeName(there), int(at)), address)
            ports[NodeName(name)].append(replace(found, connected=False, peer=None) if out else found)
    for name, own in ports.items():
        limit = chance.choice((None, world.memory_of[name] * 3 // 4))
        world.facts[name] = replace(
            mac(*own), rdma_enabled=chance.random() < 0.9, working_set_bytes=limit, filevault=False
        )


def placed(world: World) -> Iterator[str]:
    """Each group that is formed in some passes, and what is refused at their end."""
    for _ in range(PASSES):
        steps = world.plan().steps
        for step in steps:
            if isinstance(step, AllocateEpoch):
                group = step.group
                yield f"  {step.workload} on {','.join(group.members)} by {group.transport} {digest(plain(step))}"
            world.obey(step)
    plan = world.plan()
    yield from (f"  {each.object} {each.reason.value}: {each.text} [{each.person}]" for each in plan.refused)
    yield f"  {len(plan.steps)} steps, {len(plan.waiting)} waiting {digest(plain(plan.waiting))}, cabling {digest(plain(plan.cabling))}"


def test_what_is_placed_is_placed_as_it_was() -> None:
    lines = []
    for seed in range(CLUSTERS):
        chance = random.Random(seed)
        world = cluster(chance)
        lines.append(f"cluster {seed}: {len(world.memory_of)} nodes, {world.system}")
        lines += placed(world)
    compare(RECORDED / "placements.txt", lines)
