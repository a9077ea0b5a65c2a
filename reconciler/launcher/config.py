"""Reads and checks the ``config.json`` that the agent wrote for this rank."""

from __future__ import annotations

import json
import pwd
from pathlib import Path
from typing import List, NamedTuple, Tuple

from reconciler.wire.codec import WireError, from_wire
from reconciler.wire.launch import CONFIG_VARIABLE, ExitCode, JobConfig, RankConfig, RankEnd

OWN_FOLDERS = (".tmp", ".reconciler")
"""Folders of the working directory that the launcher makes: temporary files, and the files that variables name."""


class Launch(NamedTuple):
    """The configuration of a rank."""

    rank: RankConfig
    job: JobConfig
    directory: Path
    """The rank's directory."""


def read_config(path: str) -> Launch:
    """Return the configuration. Raises ``RankEnd(CONFIG)`` with what is wrong."""
    if not path:
        raise _invalid("{} is not set: it names the rank's config.json".format(CONFIG_VARIABLE))
    try:
        config = from_wire(RankConfig, json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, WireError) as error:
        raise _invalid("cannot read {}: {}".format(path, error)) from None
    if config.job is None:
        raise _invalid("{}: job is missing: this is the rank of a model".format(path))
    for holds, problem in _checks(config, config.job):
        if not holds:
            raise _invalid("{}: {}".format(path, problem))
    return Launch(config, config.job, Path(path).parent)


def _checks(config: RankConfig, job: JobConfig) -> List[Tuple[bool, str]]:
    alone = config.size == 1
    names = [file.name for file in job.files]
    limits = job.limits
    bounds = (limits.disk_bytes, limits.output_bytes, limits.open_files, limits.processes)
    return [
        (config.size >= 1, "size is {}, but must be at least 1".format(config.size)),
        (0 <= config.id.rank < config.size, "rank {} is not in the group".format(config.id.rank)),
        (alone or len(config.addresses) == config.size, "expected an address for each rank"),
        (alone or all(map(_is_address, config.addresses)), "addresses are not all ip:port"),
        (alone or _is_address(config.control), "control is {!r}, expected ip:port".format(config.control)),
        (all(map(_is_address, config.also_control)), "also_control is not all ip:port"),
        (alone or bool(config.secret), "secret is empty"),
        (config.rendezvous_seconds > 0, "rendezvous_seconds is not above 0"),
        (bool(job.command) and bool(job.command[0]), "command is empty"),
        (bool(job.python), "python is empty"),
        (
            all(map(_is_name, names)),
            "a file's name has folders, or is one of {}".format(", ".join(OWN_FOLDERS)),
        ),
        (len(set(names)) == len(names), "two files have the same name"),
        (all(bound > 0 for bound in bounds), "a limit is not above 0"),
        (job.grace_seconds >= 0, "grace_seconds is below 0"),
        (job.mpi is None or job.mpi.processes > 0, "processes of mpi is not above 0"),
        (not job.user or _exists(job.user), "there is no user {} on this machine".format(job.user)),
    ]


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 65536


def _is_name(text: str) -> bool:
    return bool(text) and "/" not in text and "\0" not in text and text not in (".", "..", *OWN_FOLDERS)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _invalid(sentence: str) -> RankEnd:
    return RankEnd(ExitCode.CONFIG, sentence)
