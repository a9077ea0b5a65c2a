"""The faults of a rehearsal: a killed rank, a pulled cable, and others by their class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.errors import Invalid
from reconciler.sandbox.commands import COMMANDS
from reconciler.wire.objects import Fabric, ModelDeployment

from .course import Fault

NODE, CABLE = "NODE", "CABLE"
AGAIN = f"kill {NODE}"
"""Makes the group form again, so that it meets the earlier fault."""
CLASSES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "C0": ((f"partition {NODE}",), (f"partition {NODE} --undo",)),
    "C1": ((f"slow-cable {CABLE}", AGAIN), (f"slow-cable {CABLE} --undo",)),
    "C2": ((f"rdma off {NODE}",), (f"rdma on {NODE}",)),
    "C3": ((f"unplug {CABLE}",), (f"plug {CABLE}",)),
    "C4": ((f"bridge {CABLE}",), (f"bridge {CABLE} --undo",)),
    "C5": ((f"hold-port {NODE} 3", AGAIN), ()),
    "C6": ((f"refuse-qp {NODE}", AGAIN), (f"refuse-qp {NODE} --undo",)),
    "C7": ((f"busy-qp {NODE}", AGAIN), (f"busy-qp {NODE} --undo",)),
    "C8": ((f"kill {NODE}",), ()),
    "C9": ((f"hang {NODE}",), (f"hang {NODE} --undo",)),
    "C10": ((f"gpu-fault {NODE}",), (f"gpu-fault {NODE} --undo",)),
    "C11": ((f"leak-wired {NODE}",), (f"leak-wired {NODE} --undo",)),
    "C12": ((f"reboot {NODE}",), ()),
    "C13": ((f"wedge-verbs {NODE}",), (f"wedge-verbs {NODE} --undo",)),
    "C14": ((f"privacy {NODE}", AGAIN), (f"privacy {NODE} --undo",)),
    "C15": ((f"decay {NODE}",), (f"decay {NODE} --undo",)),
    "C16": ((f"alone {NODE}", AGAIN), (f"alone {NODE} --undo",)),
    "C17": ((f"mute {NODE} broken",), (f"mute {NODE} --undo",)),
    "C18": ((f"unkillable {NODE} 20",), (f"unkillable {NODE} --undo",)),
    "C19": ((f"garbage {NODE}", AGAIN), (f"garbage {NODE} --undo",)),
}
"""For each class of faults, the commands of the sandbox that cause it, and those that end it."""


def named(words: Sequence[str]) -> list[str]:
    """Return the requested classes, such as ``C5,C8``. Raises ``Invalid`` for an unknown one."""
    found = [each.strip().upper() for word in words for each in word.split(",") if each.strip()]
    for each in found:
        if each not in CLASSES:
            raise Invalid(f'there is no class of faults "{each}"; expected one of {", ".join(CLASSES)}')
    return found


def chosen(
    classes: Sequence[str], deployments: Sequence[ModelDeployment], fabrics: Sequence[Fabric]
) -> list[Fault]:
    """Return the faults to cause: kill a rank, pull a cable if any is declared, then the classes. They hit nodes of groups."""
    groups = [group["nodes"] for each in deployments for group in each["status"].get("groups", ())]
    if not groups:
        return []
    nodes = max(groups, key=len)
    node, cable = nodes[-1], _cable(nodes, fabrics)
    found = [Fault(f"kill a rank on {node}", [f"kill {node}"])]
    if cable:
        found.append(Fault(f"pull the cable at {cable}", [f"unplug {cable}"], [f"plug {cable}"]))
    for name in classes:
        commands, back = CLASSES[name]
        if cable is None and any(CABLE in each for each in commands):
            raise Invalid(f"{name} needs a cable, and the manifests declare none: add a Fabric")
        words = [[_filled(each, node, cable) for each in part] for part in (commands, back)]
        found.append(Fault(f"{name}: {'; '.join(words[0])}", words[0], words[1], needed=False))
    return found


def _filled(command: str, node: str, cable: str | None) -> str:
    name, *words = command.split()
    assert name in COMMANDS
    places = {NODE: node, CABLE: cable or ""}
    return " ".join([name, *(places.get(word, word) for word in words)])


def _cable(nodes: Sequence[str], fabrics: Sequence[Fabric]) -> str | None:
    """Return an end of a declared cable: within the group if there is one, else of any."""
    links = [link for each in fabrics for link in each["spec"]["links"]]
    within = [link for link in links if all(end.partition("/")[0] in nodes for end in link)]
    return next((str(link[0]) for link in within or links), None)
