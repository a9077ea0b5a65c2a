"""The environment of a job's program: exactly these variables, and the files that they name. Pure."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Dict, List, Optional, Tuple, Union

from reconciler.wire.launch import DEVICES_JOINT, JOB_PREFIX, RankConfig

from .config import Launch

OWN_FOLDER = ".reconciler"
HOSTS_FILE = OWN_FOLDER + "/hosts.json"
DEVICES_FILE = OWN_FOLDER + "/devices.json"
FOLDERS = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def variables(launch: Launch, work: str, user: str) -> Dict[str, str]:
    """Return all variables of the program, which ``user`` runs in ``work``."""
    base = {
        "PATH": "{}:{}".format(PurePath(launch.job.python).parent, FOLDERS),
        "HOME": work,
        "USER": user,
        "LANG": "C.UTF-8",
        "TMPDIR": work + "/.tmp",
        "PYTHONUNBUFFERED": "1",
    }
    return {**base, **_contract(launch, work), **launch.job.env, **launch.job.secrets}


def _contract(launch: Launch, work: str) -> Dict[str, str]:
    """Return the variables by which a program learns its rank, and by which MLX's backends find each other
    (``mlx/_distributed_utils/launch.py`` of MLX 0.32)."""
    config = launch.rank
    id = config.id
    own = {
        "RECONCILER_JOB": id.deployment[len(JOB_PREFIX) :]
        if id.deployment.startswith(JOB_PREFIX)
        else id.deployment,
        "RECONCILER_RUN": str(id.replica),
        "RECONCILER_ATTEMPT": str(id.epoch),
        "RECONCILER_RANK": str(id.rank),
        "RECONCILER_WORLD_SIZE": str(config.size),
    }
    if launch.job.mpi is not None:
        return own  # MPI gives each process its rank
    own["MLX_RANK"] = str(id.rank)
    if config.size == 1:
        return own
    if config.backend != "jaccl":
        own["MLX_HOSTFILE"] = "{}/{}".format(work, HOSTS_FILE)
        return own
    own["MLX_IBV_DEVICES"] = "{}/{}".format(work, DEVICES_FILE)
    own["MLX_JACCL_COORDINATOR"] = config.addresses[0]
    if config.prefer_ring:
        own["MLX_JACCL_RING"] = "1"
    return own


def contract_files(launch: Launch) -> Dict[str, str]:
    """Return the files that variables name, by their paths in the working directory."""
    config = launch.rank
    if launch.job.mpi is not None or config.size == 1:
        return {}
    if config.backend != "jaccl":
        return {HOSTS_FILE: json.dumps([[address] for address in config.addresses])}
    return {DEVICES_FILE: json.dumps(_devices(config))}


def _devices(config: RankConfig) -> List[List[Union[str, List[str], None]]]:
    return [[_cell(cell) for cell in row] for row in config.devices]


def _cell(devices: str) -> Union[str, List[str], None]:
    """Return the devices of a cell: None on the diagonal, a list where several cables join two ranks."""
    return devices.split(DEVICES_JOINT) if DEVICES_JOINT in devices else devices or None


def command(launch: Launch) -> Tuple[str, ...]:
    """Return the program and its arguments, with ``python`` as the runtime's, and a file of the job by its path."""
    first, *rest = launch.job.command
    return (_program(launch, first) or first, *rest)


def _program(launch: Launch, name: str) -> Optional[str]:
    if name == "python":
        return launch.job.python
    return "./" + name if any(file.name == name for file in launch.job.files) else None
