"""Which machines there are to be, by a number or by manifests, and the manifests by which they are reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.errors import Invalid
from reconciler.resources import Manifest
from reconciler.resources.fabric import Fabric
from reconciler.resources.node import Node, Repair
from reconciler.source.editing import as_yaml

from . import macs
from .box import Sandbox
from .places import USER, host_key_line
from .sshd import LOOPBACK
from .state import Machine, World, shown

API_VERSION = "reconciler/v1alpha1"
LABEL = "mac"
"""Of a Node: which Mac is emulated for it, one of ``macs.SOLD``; by default what its name begins with."""
DEFAULT_MAC = "studio"
MACHINES_MAX = 16
FILE = "machines.yaml"
POOL = "10.77.0.0/16"


def numbered(count: int, kind: str, boot_ids: Sequence[str], boot_at: float) -> tuple[Machine, ...]:
    """``studio-1``, ``studio-2`` and so on. Raises ``Invalid``."""
    if not 1 <= count <= MACHINES_MAX:
        raise Invalid(f"from 1 to {MACHINES_MAX} machines can be emulated, not {count}")
    names = [f"{kind.split('-')[0]}-{number}" for number in range(1, count + 1)]
    return tuple(
        macs.build(name, kind, boot_id, boot_at) for name, boot_id in zip(names, boot_ids, strict=False)
    )


def of_nodes(
    manifests: Sequence[Manifest], kind: str | None, boot_ids: Sequence[str], boot_at: float
) -> tuple[Machine, ...]:
    """One for each Node. Raises ``Invalid``."""
    nodes = [each for each in manifests if isinstance(each, Node)]
    if not nodes:
        raise Invalid("there is no Node in the manifests: each becomes an emulated Mac")
    if len(nodes) > MACHINES_MAX:
        raise Invalid(f"from 1 to {MACHINES_MAX} machines can be emulated, and there are {len(nodes)} Nodes")
    return tuple(
        macs.build(node.metadata.name, kind or _kind(node), boot_id, boot_at)
        for node, boot_id in zip(nodes, boot_ids, strict=False)
    )


def joined(machines: tuple[Machine, ...], manifests: Sequence[Manifest], fabric: str) -> World:
    """With the cables of the Fabrics among the manifests, or with such a ``fabric`` where there are none.

    Raises ``Invalid``.
    """
    fabrics = [each for each in manifests if isinstance(each, Fabric)]
    if not fabrics:
        return World(machines, macs.cabled(machines, fabric))
    links = [link for each in fabrics for link in each.spec.cables]
    return World(
        machines,
        tuple(
            macs.cable(machines, (one.node, one.receptacle), (other.node, other.receptacle))
            for one, other in links
        ),
    )


def _kind(node: Node) -> str:
    label = (node.metadata.labels or {}).get(LABEL)
    if label:
        return label
    fitting = [kind for kind in macs.SOLD if node.metadata.name.startswith(kind)]
    return max(fitting, key=len, default=DEFAULT_MAC)


def written(sandbox: Sandbox, manifests: Sequence[Manifest]) -> Mapping[str, str]:
    """Files of manifests: those given, with each Node reached where it is emulated."""
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
            "metadata": {"name": machine.name},
            "spec": {**_access(sandbox, machine), "repair": _repair()},
        }


def _repair() -> dict[str, bool]:
    """All that a Node may allow, but to restart what a person must unlock: nothing of it can do harm here."""
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
