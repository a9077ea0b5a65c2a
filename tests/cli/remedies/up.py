"""Texts that say to begin a cluster with `reconciler up`, in one home in which nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .bench import Bench


@dataclass(frozen=True)
class Said:
    file: str
    words: str = "up"
    stays: bool = False
    """It is said whether a cluster runs or not."""


def restored(bench: Bench) -> str:
    backup = str(bench.folder / "backup.tar.gz")
    assert bench.calls("backup", "-o", backup).code == 0
    return bench.calls("restore", "--force", backup).out


BEGINS: dict[Said, Callable[[Bench], str]] = {
    Said("cli/core/waiting.py"): lambda bench: bench.calls("apply", "-f", str(bench.folder / "all.yaml")).err,
    Said("cli/core/client.py", "up (another home"): lambda bench: bench.calls("get", "all").err,
    Said("cli/commands/cluster/backup.py", stays=True): restored,
    Said("cli/commands/cluster/console.py"): lambda bench: bench.calls("console").err,
    Said("cli/commands/machines/bootstrap.py", stays=True): lambda bench: (
        bench.calls("node", "bootstrap", "node-a").err
    ),
    Said("cli/commands/cluster/quickstart.py", stays=True): lambda bench: bench.calls("quickstart").err,
    Said("cli/commands/write/source.py"): lambda bench: _with_source(bench),
}


def _with_source(bench: Bench) -> str:
    url = str(bench.folder / "nowhere.git")
    return bench.calls("source", "set", url).err + bench.calls("source", "show").out


WHILE_IT_RUNS = (
    ("bootstrap/home.py", "up"),
    ("bootstrap/origin.py", "up -f MANIFESTS"),
    ("cli/commands/cluster/up.py", "apply -f {x}"),
    ("cli/commands/cluster/session.py", "apply -f DIR"),
    ("cli/commands/cluster/session.py", "up"),
    ("cli/commands/cluster/up.py", "get all"),
    ("cli/core/operations.py", "up"),
    ("cli/commands/cluster/sandbox.py", "sandbox status"),
    ("cli/commands/cluster/sandbox.py", "sandbox up --nodes 2 --detach"),
    ("cli/commands/cluster/sandbox.py", "up -f {x}"),
    ("sandbox/acts/machines.py", "sandbox"),
    ("sandbox/acts/machines.py", "sandbox rdma off studio-2"),
    ("sandbox/acts/ranks.py", "sandbox fragile studio-2 30"),
    ("sandbox/acts/ranks.py", "sandbox garbage studio-1 long"),
    ("sandbox/acts/ranks.py", "sandbox gpu-fault studio-1 oom"),
    ("sandbox/acts/ranks.py", "sandbox mute studio-1 broken"),
    ("sandbox/acts/ranks.py", "sandbox unkillable studio-2 20"),
    ("sandbox/commands.py", "sandbox {x} {x}"),
    ("sandbox/world/changes.py", "sandbox plug {x}"),
    ("sandbox/world/changes.py", "sandbox unplug {x}"),
)
"""What test_running.py types beside processes that run."""
