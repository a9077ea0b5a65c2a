"""Which machines there are to be, by a number or by manifests, and the manifests by which they are reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.errors import Invalid
from reconciler.resources import Manifest
from reconciler.resources.fabric import Fabric
from reconciler.resources.node import Node
from reconciler.source.editing import as_yaml

from . import macs
from .box import Sandbox
from .places import USER, host_key_line
from .sshd import LOOPBACK
from .state import Machine, World

API_VERSION = "reconciler/v1alpha1"
LABEL = "mac"
"""Of a Node: which Mac is emulated for it, one of ``macs.SOLD``; by default what its name begins with."""
DEFAULT_MAC = "studio"
MACHINES_MAX = 16
FILE = "machines.yaml"


def numbered(count: int, kind: str, fabric: str, boot_ids: Sequence[str], boot_at: float) -> World:
    """``studio-1``, ``studio-2`` and so on. Raises ``Invalid``."""
    if not 1 <= count <= MACHINES_MAX:
        raise Invalid(f"from 1 to {MACHINES_MAX} machines can be emulated, not {count}")
    prefix = kind.split("-")[0]
    return macs.world([f"{prefix}-{n}" for n in range(1, count + 1)], kind, fabric, boot_ids, boot_at)


def of_manifests(
    manifests: Sequence[Manifest], kind: str | None, fabric: str, boot_ids: Sequence[str], boot_at: float
) -> World:
    """One machine for each Node; the cables of the Fabrics, or such a ``fabric`` where there are none.

    Raises ``Invalid``.
    """
    nodes = [each for each in manifests if isinstance(each, Node)]
    if not nodes:
        raise Invalid("there is no Node in the manifests: each becomes an emulated Mac")
    machines = tuple(
        macs.build(node.metadata.name, kind or _kind(node), boot_id, boot_at)
        for node, boot_id in zip(nodes, boot_ids, strict=False)
    )
    fabrics = [each for each in manifests if isinstance(each, Fabric)]
    if not fabrics:
        return World(machines, macs.cabled(machines, fabric))
    links = [link for each in fabrics for link in each.spec.cables]
    ends = [tuple((end.node, end.receptacle) for end in link) for link in links]
    return World(machines, tuple(macs.cable(machines, a, b) for a, b in ends))


def _kind(node: Node) -> str:
    label = (node.metadata.labels or {}).get(LABEL)
    if label:
        return label
    fitting = [kind for kind in macs.SOLD if node.metadata.name.startswith(kind)]
    return max(fitting, key=len, default=DEFAULT_MAC)


def written(sandbox: Sandbox, manifests: Sequence[Manifest]) -> Mapping[str, str]:
    """Files of manifests: those given, with each Node reached where it is emulated."""
    documents = [_plain(sandbox, each) for each in manifests] or list(_nodes(sandbox))
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
    """All that a Node may allow: nothing of it can do harm here."""
    return {"reboot": True}


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
