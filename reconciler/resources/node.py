"""The kind Node: one machine, and how the controller connects to it."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from .base import (
    ABSOLUTE_PATH,
    HOST,
    TYPE,
    USER,
    Bytes,
    Manifest,
    Path,
    Seconds,
    Strict,
)
from .scheduling import Taints

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
"""Types of the host keys that OpenSSH generates."""


def _host_key(value: str) -> str:
    """Return ``type base64 [comment]``, where the base64 begins with the type again (RFC 4253, section 6.6).

    The messages do not repeat the value: it may be a private key.
    """
    words = value.split()
    if len(words) > 1 and words[0] not in KEY_TYPES and words[1] in KEY_TYPES:
        raise ValueError(
            "this is a line of known_hosts: remove its first word, so that it begins with the key's type"
        )
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in value.strip():
        raise ValueError(
            'not a public key of OpenSSH, such as "ssh-ed25519 AAAA…": copy the line in'
            " /etc/ssh/ssh_host_ed25519_key.pub of the machine"
        )
    if _strings(words[1])[:1] != [words[0].encode()]:
        raise ValueError(
            f"the public key is incomplete: all of its base64 must follow {words[0]}, on one line"
        )
    return value


def _strings(encoded: str) -> list[bytes]:
    """Return the strings of an encoded key, each of which follows its length in four bytes; empty if incomplete."""
    try:
        rest = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return []
    found = []
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        if end > len(rest) or len(rest) < 4:
            return []
        found.append(rest[4:end])
        rest = rest[end:]
    return found if len(found) > 1 else []


def _ipv4(value: str) -> str:
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError('expected an IPv4 address such as "192.168.1.20"') from None
    return value


class LocalAccess(Strict):
    """The controller's machine. Several nodes may be local; they share its memory."""


class SshAccess(Strict):
    """SSH access to another machine. `reconciler node add HOST` writes these fields."""

    host: Annotated[str, HOST.field()]
    """Host name, address, or a `Host` of `~/.ssh/config`."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """Port of the machine's SSH server."""
    user: Annotated[str, USER.field()]
    """User on the machine who runs the agent and the ranks."""
    host_key: Annotated[
        str,
        StringConstraints(max_length=4096),
        AfterValidator(_host_key),
        Field(json_schema_extra={TYPE: "public key"}),
    ]
    """The machine's public host key, as in its `/etc/ssh/ssh_host_ed25519_key.pub`. No other key is accepted."""
    identity_file: Path | None = None
    """Private key on the controller's machine, the only one that is tried. By default the keys in `~/.ssh` and of the
    SSH agent are tried."""


class Access(Strict):
    """Everything that is needed to have an agent on a node: how to connect, and the Python of its ranks."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["local"]}, {"required": ["ssh"]}]})

    local: LocalAccess | None = None
    """`{}` for the controller's own machine. Use either `local` or `ssh`."""
    ssh: SshAccess | None = None
    """SSH access to another machine. Use either `local` or `ssh`."""
    python: Annotated[str, ABSOLUTE_PATH.field()] | None = None
    """Python interpreter on the node with `mlx`, `mlx-lm`, `llguidance` and `reconciler`, which you maintain. By default
    a local node uses the controller's interpreter, and any other node a managed one."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.local is None) == (self.ssh is None):
            raise ValueError(
                "use either local or ssh: local: {} for the controller's own machine,"
                " ssh: {host, user, hostKey} for another"
            )
        return self


LOCAL = Access(local=LocalAccess())


class NodeMemory(Strict):
    """The part of the machine's memory that models may use."""

    reserve: Bytes = 0
    """Memory kept free for the system and all other programs."""
    limit: Bytes | None = None
    """Most memory that all ranks on the machine may use together. By default all but the reserve. On a Mac it is never
    more than its GPU may wire."""


class Repair(Strict):
    """Repairs that the controller may make on this machine. They need `sudo` without a password for certain commands;
    `reconciler node bootstrap` prints the rule that allows exactly these."""

    network: bool = False
    """Take the Thunderbolt ports of a Fabric's links out of the bridge, and give each end of a link its address
    from the Fabric's `spec.addressing.pool`. A change is undone unless it is confirmed over the network within a
    minute."""
    wired_limit: bool = False
    """Raise the GPU's limit of wired memory to what `spec.memory` leaves to models: its limit, or all but the
    reserve."""
    sleep: bool = False
    """Keep the machine from going to sleep while nobody uses it."""
    updates: bool = False
    """Keep macOS from installing its updates by itself and restarting for them. Update all nodes together instead."""
    weights: bool = False
    """Keep Spotlight and Time Machine off the folder of weights. This needs no `sudo`."""
    reboot: bool = False
    """Restart the machine if nothing less helps and no group serves on it. One machine restarts at a time, and each at
    most once in six hours."""
    file_vault: bool = False
    """Allow restarts although FileVault is on. Somebody, or something, must unlock the disk afterwards."""


def _in_the_repository(path: str) -> str:
    if not path.isprintable() or {"", ".", ".."} & {*path.split("/")}:
        raise ValueError('expected a path from the root of the repository, such as "jobs/*"')
    return path


class JobsAllowed(Strict):
    """The jobs that may run on a node, and the user that runs them."""

    paths: Annotated[
        tuple[
            Annotated[
                str, StringConstraints(min_length=1, max_length=512), AfterValidator(_in_the_repository)
            ],
            ...,
        ],
        Field(min_length=1, max_length=64),
    ]
    """Paths in the cluster repository; `*` and `?` stand for other characters, `*` also for `/`. Only Jobs whose manifests
    are there may run, such as `jobs/*`."""
    user: Annotated[str, USER.field()] | None = None
    """User on the machine that runs the jobs. Unset: the user of the agent, whose files they can then read."""

    def names(self, path: str | None) -> bool:
        """Return whether a Job may run whose manifest is at ``path``; None is no path of the repository."""
        return path is not None and any(fnmatchcase(path, pattern) for pattern in self.paths)


class Jobs(Strict):
    """Permission to run jobs."""

    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("paths", "user"), 'put it under "allow": {paths: [jobs/*], user: NAME}'
    )

    allow: JobsAllowed
    """The jobs that may run."""


def _branch(value: Any) -> str | None:
    """Return the tag of the form that a value has; None if it has neither."""
    if isinstance(value, dict | Jobs):
        return "permission"
    return "denied" if value == "deny" else None


_NEITHER = 'expected "deny", or a mapping such as allow: {paths: [jobs/*], user: NAME}'


def _any_of(schema: dict[str, Any]) -> None:
    """Describe the forms as all fields with several are: no value has both."""
    schema["anyOf"] = schema.pop("oneOf")


class NodeSpec(Access):
    """A machine that can run ranks."""

    address: Annotated[str, AfterValidator(_ipv4), Field(json_schema_extra={TYPE: "address"})] | None = None
    """IPv4 address at which the other nodes of a group reach this one. By default the address that the controller
    connects to."""
    memory: NodeMemory = NodeMemory.by_default()
    unschedulable: bool = False
    """Place no new ranks here. Running ranks continue."""
    drain: bool = False
    """Move the ranks elsewhere, or stop them once they have finished their requests. Implies `unschedulable`."""
    taints: Taints = ()
    """Taints of the node. Each keeps off the deployments that do not tolerate it."""
    lost_after: Annotated[Seconds, Field(ge=1)] = 30.0
    """Time for which the node may be silent before its groups are formed elsewhere, at least 1s. Meanwhile they get no
    requests."""
    repair: Repair = Repair.by_default()
    jobs: Annotated[
        Annotated[Literal["deny"], Tag("denied")] | Annotated[Jobs, Tag("permission")],
        Discriminator(
            _branch,
            custom_error_type="other_form",
            custom_error_message=_NEITHER,
            custom_error_context={"error": _NEITHER},
        ),
        Field(json_schema_extra=_any_of),
    ] = "deny"
    """Jobs that may run here. A Job is code: everybody who may push to these paths of the cluster repository can run any
    program on the machine. `deny`: none."""
    reboot_from: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """Id of the boot that should end: while the machine runs in it, the machine is drained and restarted, one machine
    at a time. In any other boot this has no effect. `reconciler reboot` sets it."""

    @property
    def jobs_allowed(self) -> JobsAllowed | None:
        """Return which jobs may run; None for none."""
        return None if self.jobs == "deny" else self.jobs.allow

    @property
    def access(self) -> Access:
        """Return the fields that say how to connect to the node."""
        return _access(self.local, self.ssh, self.python)


@lru_cache(maxsize=4096)
def _access(local: LocalAccess | None, ssh: SshAccess | None, python: str | None) -> Access:
    """Build it once for each machine: every pass asks for it."""
    return Access(local=local, ssh=ssh, python=python)


class Node(Manifest):
    """One machine."""

    kind: Literal["Node"]
    spec: NodeSpec
