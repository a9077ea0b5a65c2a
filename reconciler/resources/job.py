"""The kind Job: a program that runs on several nodes until it ends, such as a benchmark or a fine-tuning."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator
from pydantic_core import core_schema

from .base import TYPE, Bytes, Manifest, Seconds, Strict, Variable
from .deployment import RANKS_MAX, TRANSPORTS, Transports
from .job_files import is_inside
from .schedules import Cron, TimeZone
from .scheduling import Placement, Priority
from .weights import TokenRef, one_place

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core.core_schema import CoreSchema

PATH_CHARACTERS_MAX = 512
RESERVED = ("RECONCILER_", "MLX_", "LD_", "DYLD_")
"""Beginnings of the names of variables that a job does not set itself: the product or the loader of programs does."""
_Word = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Command = Annotated[tuple[_Word, ...], Field(min_length=1, max_length=256)]


class Script(Strict):
    """A program that runs once on every node, such as a script that calls `mlx.distributed.init()`. The ranks find each
    other by the variables of `mlx.launch`."""

    command: Command
    """The program and its arguments. Relative paths begin in the working directory, which has `files`. `python` is the
    Python of the node's runtime."""


class Mpi(Strict):
    """An MPI program, which `mpirun` starts on every node."""

    command: Command
    """The program and its arguments, as for `script`."""
    processes: Annotated[int, Field(ge=1, le=256)] = 1
    """MPI processes on each node."""
    mpirun: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = "mpirun"
    """Name or path of `mpirun` on the nodes. It must be Open MPI's."""
    options: Annotated[tuple[_Word, ...], Field(max_length=64)] = ()
    """Further options of `mpirun`."""


class Program(Strict):
    """The program of a job. Use either `script` or `mpi`."""

    script: Script | None = None
    """A program that runs once on every node."""
    mpi: Annotated[Mpi | None, Field(validate_default=True)] = None
    """An MPI program."""

    @field_validator("mpi")
    @classmethod
    def _one(cls, value: Mpi | None, info: Any) -> Mpi | None:
        if "script" in info.data and (value is None) == (info.data["script"] is None):
            raise ValueError("use either script or mpi")
        return value


def _inside(path: str) -> str:
    if not is_inside(path):
        raise ValueError('expected a relative path without "." and "..", such as "jobs/hpl/HPL.dat"')
    return path


def _patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((each for at, each in enumerate(patterns) if each in patterns[:at]), None)
    if twice is not None:
        raise ValueError(f"{twice} is listed twice")
    return patterns


def _base64(value: str | None) -> str | None:
    try:
        base64.b64decode(value or "", validate=True)
    except binascii.Error:
        raise ValueError("expected base64") from None
    return value


RelativePath = Annotated[
    str, StringConstraints(min_length=1, max_length=PATH_CHARACTERS_MAX), AfterValidator(_inside)
]


class JobFile(Strict):
    """A file of the cluster repository, as it is in the commit with the job's manifest."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "mode": 'use "executable: true"',
        **dict.fromkeys(("content", "contents"), 'a file is committed next to the manifest: name its "path"'),
    }

    path: RelativePath
    """Path from the root of the repository. In the working directory the file has the last part of it as its name."""
    executable: bool = False
    """The file may be run as a program."""
    data: Annotated[str | None, AfterValidator(_base64)] = None
    """Content, in base64. It is set when the commit is read."""

    @property
    def name(self) -> str:
        """Return its name in the working directory."""
        return self.path.rpartition("/")[2]


class _Short:
    """``- jobs/train.py`` is short for ``- path: jobs/train.py``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._whole, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", TYPE: "path", "maxLength": PATH_CHARACTERS_MAX}, handler(core)]}

    @staticmethod
    def _whole(value: Any) -> Any:
        if isinstance(value, str):
            return {"path": value}
        if isinstance(value, dict | JobFile):
            return value
        raise ValueError('expected a path such as "jobs/train.py", or a mapping with path')


def _files(files: tuple[JobFile, ...]) -> tuple[JobFile, ...]:
    names = [file.name for file in files]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise ValueError(f"two files have the name {twice} in the working directory")
    return files


def _free(env: dict[str, str]) -> dict[str, str]:
    taken = next((name for name in env if name.startswith(RESERVED)), None)
    if taken is not None:
        raise ValueError(f"{taken}: names that begin with {', '.join(RESERVED)} are set by the reconciler")
    return env


class Limits(Strict):
    """Limits of each rank. A rank that exceeds them ends."""

    disk: Bytes = 10 * 2**30
    """Most bytes of all files in the working directory together."""
    output: Bytes = 64 * 2**20
    """Most bytes of output that are kept. The program goes on, and its newest output is kept."""
    open_files: Annotated[int, Field(ge=16, le=1_000_000)] = 4096
    """Most files that a process may have open."""
    processes: Annotated[int, Field(ge=1, le=100_000)] = 512
    """Most processes and threads of the user that runs the job."""


class JobSpec(Strict):
    """A program, the nodes that it needs, and what is done when it fails."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "activeDeadlineSeconds": 'use "activeDeadline", such as "2h"',
        "ttlSecondsAfterFinished": 'use "ttlAfterFinished", such as "24h"',
        "startingDeadlineSeconds": 'use "startingDeadline"',
        **dict.fromkeys(("parallelism", "completions", "minAvailable", "replicas"), 'use "nodes"'),
        "template": 'use "program"',
        "restartPolicy": 'use "backoffLimit", and "failOnExitCodes"',
        "podFailurePolicy": 'use "failOnExitCodes"',
        "priorityClassName": 'use "priority", a number',
        "artefacts": 'use "artifacts"',
        **dict.fromkeys(("command", "args"), 'use "command" under "program.script", or under "program.mpi"'),
        "image": "a job runs with the programs of the node, and not in a container",
        **dict.fromkeys(("resources", "gpus"), 'use "memory": without it, each rank has a node to itself'),
        **dict.fromkeys(("volumes", "volumeMounts"), 'use "files", and "artifacts" for results'),
        **dict.fromkeys(("user", "runAs", "securityContext"), "the Node decides that: spec.jobs.allow.user"),
        "successfulJobsHistoryLimit": 'use "ttlAfterFinished"',
        "failedJobsHistoryLimit": 'use "ttlAfterFinished"',
        "workingDirectory": "each attempt has a new one",
    }

    program: Program
    nodes: Annotated[int, Field(ge=1, le=RANKS_MAX)] = 1
    """Number of nodes, each of which runs one rank. All of them start together, or none does."""
    placement: Placement = Placement.by_default()
    transport: Transports = TRANSPORTS
    """Transports that the ranks may use, best first, as in a ModelDeployment. The first that the machines support is
    used."""
    memory: Bytes | None = None
    """Memory that each rank is charged. Unset: a rank has its node to itself."""
    env: Annotated[dict[Variable, str], Field(max_length=256), AfterValidator(_free)] = Field(
        default_factory=dict
    )
    """Environment variables of every rank."""
    secrets: Annotated[
        dict[Variable, Annotated[TokenRef, AfterValidator(one_place)]],
        Field(max_length=64),
        AfterValidator(_free),
    ] = Field(default_factory=dict)
    """Environment variables whose values stay out of git: each refers to a file or variable on the controller's machine."""
    files: Annotated[
        tuple[Annotated[JobFile, _Short()], ...],
        Field(max_length=256),
        AfterValidator(_files),
    ] = ()
    """Files of the cluster repository that are put into the working directory. A changed file is a changed job."""
    artifacts: Annotated[tuple[RelativePath, ...], Field(max_length=256), AfterValidator(_patterns)] = ()
    """Files and folders of the working directory that are fetched home when a run ends; `*` and `?` stand for other
    characters."""
    active_deadline: Annotated[Seconds, Field(ge=1)] | None = None
    """Time limit of a run, from its first start and over all attempts. Time in which it is suspended does not count. A run
    that exceeds it has failed."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 6
    """Number of further attempts after failed ones. Attempts that ended because of a drain, a preemption or a lost node do
    not count."""
    fail_on_exit_codes: Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=255)] = ()
    """Exit codes after which a run has failed without another attempt."""
    grace_period: Annotated[Seconds, Field(ge=0, le=3600)] = 10.0
    """Time between SIGTERM and SIGKILL when the program is ended."""
    suspend: bool = False
    """Start nothing, and end what runs. The attempt that ends by this does not count."""
    priority: Priority = 0
    """Order in which nodes are given to jobs and deployments that wait for them: higher ones come first."""
    preempt: bool = False
    """Take nodes from deployments that are `preemptible` and have a lower priority. They are drained first, and served
    again after the run."""
    schedule: Cron | None = None
    """When a run begins: the five fields of cron, in the time of `timeZone`. Unset: once."""
    time_zone: TimeZone = "UTC"
    """The IANA name of the time zone of `schedule`, which it needs."""
    concurrency_policy: Literal["Forbid", "Replace"] = "Forbid"
    """For a run that is due while the last one has not ended. `Forbid`: it is left out. `Replace`: the last one ends."""
    starting_deadline: Annotated[Seconds, Field(ge=10)] = 300.0
    """Longest delay of a scheduled run, such as after the controller was down, at least 10s. A later run is left out."""
    ttl_after_finished: Annotated[Seconds, Field(ge=0)] = 7 * 24 * 3600.0
    """Time for which logs and working directories of a run stay on the nodes after its end; those of the newest 100 runs at
    most."""
    limits: Limits = Limits.by_default()
    restarted_at: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """A change of this value runs the job again. `reconciler restart` sets it to the current time."""
    manifest_path: RelativePath | None = None
    """Path of this manifest in the cluster repository. It is set when the commit is read."""
    cancelled_run: Annotated[int, Field(ge=1)] | None = None
    """Runs up to this number end. `reconciler cancel` sets it."""

    @field_validator("secrets")
    @classmethod
    def _said_once(cls, value: Mapping[str, TokenRef], info: Any) -> Mapping[str, TokenRef]:
        both = next((name for name in value if name in info.data.get("env", {})), None)
        if both is not None:
            raise ValueError(f"{both} is in env too: remove one of them")
        return value

    @field_validator("time_zone", "concurrency_policy", "starting_deadline")
    @classmethod
    def _of_a_schedule(cls, value: Any, info: Any) -> Any:
        default = cls.model_fields[info.field_name].default
        if value != default and "schedule" in info.data and info.data["schedule"] is None:
            raise ValueError("this is for a job with a schedule: add schedule, or remove this")
        return value


class Job(Manifest):
    """A program that runs on several nodes until it ends."""

    kind: Literal["Job"]
    spec: JobSpec

    def body(self, *, defaults: bool = True) -> dict[str, Any]:
        """Return it without the fields that are set when a commit is read."""
        body = super().body(defaults=defaults)
        body["spec"].pop("manifestPath", None)
        for file in body["spec"].get("files", ()):
            file.pop("data", None)
        return body
