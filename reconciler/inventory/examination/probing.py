"""The probes for a machine that is no node yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.inventory.probes import engine, management, power, verbs
from reconciler.inventory.probes.probe import Probe
from reconciler.inventory.probes.table import PROBES
from reconciler.wire.tools import RunTool

REMOTE_LOGIN = Probe(
    "Remote Login", RunTool(("launchctl", "print", "system/com.openssh.sshd"), 5.0), management.job, 3600.0
)
"""The job of the SSH server. An examination over SSH need not probe it."""
RUN: tuple[Probe[Any], ...] = (REMOTE_LOGIN, *PROBES)
"""All probes, in the order of their runs."""
LEFT_OUT: Mapping[str, str] = {
    management.JOB.name: "there is no agent yet",
    management.PANICS.name: "reports of panics name what ran there",
    power.POWER.name: "it needs an administrator",
    engine.ENGINE.name: "there is no runtime yet",
}
"""Probes without a result at this time, with the reason."""
RISKY = verbs.VERBS_PORTS
"""It opens the RDMA driver."""
RISK = "it opens the RDMA driver, which something may be using; with --verbs it is run all the same"
