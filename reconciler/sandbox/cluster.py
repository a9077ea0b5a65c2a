"""Chooses the machines to emulate, from a number or manifests, and writes the manifests to reach them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from reconciler.errors import Invalid
from reconciler.resources import Manifest
from reconciler.resources.fabric import Fabric, Link
from reconciler.resources.node import Node, Repair
from reconciler.source.yaml.plain import as_yaml

from .places import USER, host_key_line
from .server import Sandbox
from .sshd import LOOPBACK
from .world import macs
from .world.changes import POOL
from .world.state import Machine, World, shown

API_VERSION = "reconciler/v1alpha1"
LABEL = "mac"
"""Label of a Node with the type of Mac, one of ``macs.SOLD``; by default from its name."""
DEFAULT_MAC = "studio"
MACHINES_MAX = 16
FILE = "machines.yaml"


def numbered(count: int, kind: str, boot_ids: Sequence[str], boot_at: float) -> tuple[Machine, ...]:
    """Return ``studio-1``, ``studio-2`` and so on. Raises ``Invalid``."""
    if not 1 <= count <= MACHINES_MAX:
        raise Invalid(f"the sandbox emulates 1 to {MACHINES_MAX} machines, not {count}")
    names = [f"{kind.split('-')[0]}-{number}" for number in range(1, count + 1)]
    return tuple(
        macs.build(name, kind, boot_id, boot_at) for name, boot_id in zip(names, boot_ids, strict=False)
    )


def of_nodes(
    manifests: Sequence[Manifest],
    kind: str | None,
    boot_ids: Sequence[str],
    boot_at: float,
    count: int | None = None,
) -> tuple[Machine, ...]:
    """Return a machine for each Node; ``count`` checks their number. Without Nodes, return ``count`` machines as
    ``numbered`` does. Raises ``Invalid``."""
    nodes = [each for each in manifests if isinstance(each, Node)]
    if not nodes and count is None:
        raise Invalid("the manifests have no Nodes to emulate; give the number of Macs with --nodes")
    if not nodes:
        return numbered(count or 0, kind or DEFAULT_MAC, boot_ids, boot_at)
    if count not in (None, len(nodes)):
        raise Invalid(
            f"the manifests have {len(nodes)} Nodes, not {count}: use --nodes {len(nodes)}, or omit it"
        )
    if len(nodes) > MACHINES_MAX:
        raise Invalid(f"the sandbox emulates 1 to {MACHINES_MAX} machines, but there are {len(nodes)} Nodes")
    return tuple(
        macs.build(node.metadata.name, kind or _kind(node), boot_id, boot_at)
        for node, boot_id in zip(nodes, boot_ids, strict=False)
    )


def joined(
    machines: tuple[Machine, ...],
    declared: Sequence[Manifest],
    shape: str | None = None,
    there: Sequence[Manifest] = (),
) -> World:
    """Return the machines with their cables: those of the Fabrics in ``there``, else of a ``shape`` (``mesh``,
    ``ring``), else of the declared Fabrics, else a mesh. Declared links keep their receptacles if they have that shape.

    Raises ``Invalid`` for cables that such machines cannot have.
    """
    drawn, wished = _links(there), _links(declared)
    if not drawn and wished and (shape is None or _has_shape(wished, shape, machines)):
        drawn = wished
    if not drawn:
        return World(machines, macs.cabled(machines, shape or macs.MESH))
    return World(
        machines,
        tuple(
            macs.cable(machines, (one.node, one.receptacle), (other.node, other.receptacle))
            for one, other in drawn
        ),
    )


def _links(manifests: Sequence[Manifest]) -> list[Link]:
    return [link for each in manifests if isinstance(each, Fabric) for link in each.spec.cables]


def _has_shape(links: Sequence[Link], shape: str, machines: Sequence[Machine]) -> bool:
    """Return whether the links join the machines in this shape, each pair once."""
    names = {each.name for each in machines}
    pairs = {frozenset((one.node, other.node)) for one, other in links}
    if len(pairs) != len(links) or not all(pair <= names for pair in pairs):
        return False
    if shape == macs.MESH:
        return len(pairs) == len(names) * (len(names) - 1) // 2
    return shape == macs.RING and _is_ring(pairs, names)


def _is_ring(pairs: Set[frozenset[str]], names: Set[str]) -> bool:
    """Return whether the pairs join the machines in one ring; two machines are joined once."""
    if len(names) == 2:
        return len(pairs) == 1
    beside = {
        name: sorted(other for pair in pairs if name in pair for other in pair - {name}) for name in names
    }
    if any(len(others) != 2 for others in beside.values()):
        return False
    first = min(names)
    walked = [first, beside[first][0]]
    while walked[-1] != first:
        walked.append(next(other for other in beside[walked[-1]] if other != walked[-2]))
    return len(walked) == len(names) + 1


def _kind(node: Node) -> str:
    label = (node.metadata.labels or {}).get(LABEL)
    if label:
        return label
    fitting = [kind for kind in macs.SOLD if node.metadata.name.startswith(kind)]
    return max(fitting, key=len, default=DEFAULT_MAC)


def written(sandbox: Sandbox, manifests: Sequence[Manifest]) -> Mapping[str, str]:
    """Return the files of the manifests, with each Node at its emulated machine."""
    documents = [_plain(sandbox, each) for each in manifests]
    if not any(isinstance(each, Node) for each in manifests):
        documents = [*_nodes(sandbox), *documents]
    if not any(isinstance(each, Fabric) for each in manifests) and sandbox.world.cables:
        documents.append(_fabric(sandbox.world))
    head = "# Emulated Macs, as `reconciler sandbox up` made them.\n"
    return {FILE: head + "---\n".join(as_yaml(document) for document in documents)}


def _nodes(sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    for machine in sandbox.world.machines:
        yield {
            "apiVersion": API_VERSION,
            "kind": "Node",
            "metadata": {"name": machine.name, "labels": _labels(machine)},
            "spec": {**_access(sandbox, machine), "repair": _repair()},
        }


def _labels(machine: Machine) -> dict[str, str]:
    """Return the labels of the examples, so that their deployments fit on it."""
    kind = macs.kind_of(machine)
    return {"pool": f"{kind.split('-')[0]}s", LABEL: kind}


def _repair() -> dict[str, bool]:
    """Return all repairs that a Node may allow, because they are harmless here, except restarts of machines with
    FileVault."""
    return {field.alias or name: True for name, field in Repair.model_fields.items() if name != "file_vault"}


def _fabric(world: World) -> dict[str, Any]:
    links = [[shown(end) for end in cable.ends] for cable in world.cables]
    spec = {"addressing": {"pool": POOL}, "links": links}
    return {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": "emulated"}, "spec": spec}


def _plain(sandbox: Sandbox, manifest: Manifest) -> dict[str, Any]:
    plain: dict[str, Any] = manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(manifest, Node):
        kept = {
            key: value
            for key, value in plain["spec"].items()
            if key not in ("local", "ssh", "python", "address")
        }
        plain["spec"] = {**_access(sandbox, sandbox.world.machine(manifest.metadata.name)), **kept}
    return plain


def _access(sandbox: Sandbox, machine: Machine) -> dict[str, Any]:
    place = sandbox.places[machine.name]
    ssh = {
        "host": LOOPBACK, "port": sandbox.port(machine.name), "user": USER,
        "hostKey": host_key_line(place.host_key), "identityFile": str(sandbox.ground.key),
    }  # fmt: skip
    return {"ssh": ssh, "python": str(place.python)}
