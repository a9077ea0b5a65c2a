"""The command of ``mpirun`` (Open MPI 4), and the files and variables that it needs. Pure.

Rank 0 runs ``mpirun``. It starts ``orted`` on the other machines with ``reconciler-remote`` in place of SSH: a script in
the working directory, which asks rank 0's launcher, and that asks the other launchers over the control channel.
"""

from __future__ import annotations

import shlex
from typing import Dict, List, Tuple

from reconciler.wire.launch import MpiConfig
from reconciler.wire.sockets import split_address

from .config import Launch
from .environment import OWN_FOLDER

AGENT = "reconciler-remote"
_SCRIPT = OWN_FOLDER + "/remote.py"
CALLS_VARIABLE = "RECONCILER_REMOTE"
"""The socket of rank 0's launcher, and the word that shows that a caller belongs to the job."""


def hosts(launch: Launch) -> List[str]:
    """Return the address of each rank."""
    return [split_address(address)[0] for address in launch.rank.addresses]


def is_spread(launch: Launch) -> bool:
    """Return whether the ranks are on several machines."""
    return len(set(hosts(launch))) > 1


def agent_files(python: str, work: str, source: str) -> List[Tuple[str, str, bool]]:
    """Return the files that run in place of SSH: name, content, and whether it is a program."""
    words = (python, "-I", "-S", "{}/{}".format(work, _SCRIPT))
    stub = '#!/bin/sh\nexec {} "$@"\n'.format(" ".join(map(shlex.quote, words)))
    return [(_SCRIPT, source, False), ("{}/{}".format(OWN_FOLDER, AGENT), stub, True)]


def variables(work: str, calls: str, root: bool) -> Dict[str, str]:
    """Return further variables of ``mpirun``. ``root``: it runs as root, which it refuses without them."""
    own = {CALLS_VARIABLE: calls, "PATH": "{}/{}".format(work, OWN_FOLDER)} if calls else {}
    allowed = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1") if root else {}
    return {**own, **allowed}


def command(launch: Launch, mpi: MpiConfig, program: Tuple[str, ...], exported: List[str]) -> List[str]:
    """Return the command of rank 0. ``exported``: names of variables that all processes get."""
    found = hosts(launch) or ["127.0.0.1"]
    words = [mpi.mpirun, "-np", str(mpi.processes * launch.rank.size)]
    if is_spread(launch):
        slots = {host: mpi.processes * found.count(host) for host in dict.fromkeys(found)}
        words += ["--host", ",".join("{}:{}".format(*each) for each in slots.items())]
        own = ",".join("{}/32".format(host) for host in slots)  # each machine has one of these addresses
        for name, value in (
            ("plm", "rsh"),
            ("plm_rsh_agent", AGENT + ":true"),  # orted wants to find one as well, and uses none
            ("plm_rsh_no_tree_spawn", "1"),  # the other machines have no such script
            ("orte_leave_session_attached", "1"),  # orted stays a child, with a status
            ("oob_tcp_if_include", own),
            ("btl_tcp_if_include", own),
        ):
            words += ["--mca", name, value]
    else:
        words.append("--oversubscribe")
    for name in exported:
        words += ["-x", name]
    return [*words, *mpi.options, *program]
