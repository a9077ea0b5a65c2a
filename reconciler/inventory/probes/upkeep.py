"""Activities of macOS next to the ranks: its firewall, updates, index and backups."""

from __future__ import annotations

import re

from reconciler.wire.tools import RunTool, ToolSaid

from .probe import Probe, Unknown, failed, of_complete, unlike

NEVER_INDEX = ".metadata_never_index"
"""A folder with a file of this name is not indexed by Spotlight."""


@of_complete
def firewall(text: str) -> bool | Unknown:
    """Parse ``socketfilterfw --getglobalstate``: a sentence with a state; 0 is off."""
    found = re.search(r"^Firewall is .*\(State = ([0-2])\)", text)
    return unlike(text, "'Firewall is … (State = 0)'") if found is None else found[1] != "0"


@of_complete
def updates_itself(text: str) -> bool | Unknown:
    """Parse ``defaults read``: a number. It fails if nobody has set it, and then the system's default is unknown."""
    return {"1": True, "0": False}.get(text.strip(), unlike(text, "0 or 1"))


def indexed(result: ToolSaid) -> bool | Unknown:
    """Parse ``find FOLDER … -name .metadata_never_index``: its path, or nothing."""
    if result.code != 0:
        return failed(result)
    lines = result.stdout.split("\n")
    if lines.pop() or len(lines) > 1 or not all(line.endswith(f"/{NEVER_INDEX}") for line in lines):
        return unlike(result.stdout, f"the path of {NEVER_INDEX}, or nothing")
    return not lines


@of_complete
def backed_up(text: str) -> bool | Unknown:
    """Parse ``tmutil isexcluded FOLDER``: a word in brackets, and the folder."""
    found = re.match(r"\[(Included|Excluded)\] ", text)
    return unlike(text, "'[Included]' or '[Excluded]'") if found is None else found[1] == "Included"


FIREWALL = Probe("firewall", RunTool(("socketfilterfw", "--getglobalstate"), 5.0), firewall, 60.0)
"""It runs often, and again after a rank has failed: the firewall may keep ranks from finding each other."""
UPDATES = Probe(
    "updates",
    RunTool(
        (
            "defaults",
            "read",
            "/Library/Preferences/com.apple.SoftwareUpdate",
            "AutomaticallyInstallMacOSUpdates",
        ),
        5.0,
    ),
    updates_itself,
    3600.0,
)
INDEX = Probe(
    "Spotlight", RunTool(("find", "{models}", "-maxdepth", "1", "-name", NEVER_INDEX), 10.0), indexed, 3600.0
)
BACKUP = Probe("Time Machine", RunTool(("tmutil", "isexcluded", "{models}"), 10.0), backed_up, 3600.0)
