"""Says why a machine cannot reach the folder of its weights, and what a person does about it."""

from __future__ import annotations

from typing import NamedTuple

from reconciler.state import NodeName, RefusedBecause
from reconciler.wire.node import ModelReport

CONSENT = (
    "on {node}: System Settings, Privacy & Security, Full Disk Access: allow the Python that runs the agent (ps -axo command"
    " names it); for an external volume, Removable Volumes in Files & Folders is enough; or move the weights into the"
    " home folder, outside Desktop, Documents and Downloads"
)
MOUNT = (
    "on {node}: mount {volume}, or log in at the screen, which mounts it; to have it mounted without that: sudo defaults write"
    " /Library/Preferences/SystemConfiguration/autodiskmount AutomountDisksWithoutUserLogin -bool true, and restart; or"
    " move the weights into the home folder"
)


class Obstacle(NamedTuple):
    """Why weights cannot be reached."""

    reason: RefusedBecause
    text: str
    person: str


def obstacle(name: NodeName, weights: ModelReport) -> Obstacle | None:
    """Return what keeps a machine from the folder of weights; None if nothing is known to."""
    if weights.absent_volume:
        text = f"{weights.directory} on {name} is on {weights.absent_volume}, which is not mounted"
        person = MOUNT.format(node=name, volume=weights.absent_volume)
        return Obstacle(RefusedBecause.VOLUME_ABSENT, text, person)
    if weights.barred:
        text = f"macOS does not let the agent of {name} read {weights.directory}"
        return Obstacle(RefusedBecause.NOT_ALLOWED, text, CONSENT.format(node=name))
    return None
