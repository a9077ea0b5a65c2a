"""The kind Node: one machine, and how it is reached."""

from __future__ import annotations

import base64
import binascii
import ipaddress
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from .base import ApiVersion, Bytes, Manifest, Metadata, Seconds, Strict
from .scheduling import Taints

KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)
"""Of the host keys that OpenSSH makes by itself."""


def _host_key(value: str) -> str:
    """``type base64 [comment]``, where the base64 begins with the type again (RFC 4253, section 6.6).

    What it says begins with no value: somebody may have put a private key here.
    """
    words = value.split()
    if len(words) > 1 and words[0] not in KEY_TYPES and words[1] in KEY_TYPES:
        raise ValueError(
            "it is a line of known_hosts: leave out its first word, so that it begins with the key's type"
        )
    if len(words) < 2 or words[0] not in KEY_TYPES or "\n" in value.strip():
        raise ValueError(
            'it is no public key of OpenSSH, such as "ssh-ed25519 AAAA…": on the machine it is the line in'
            " /etc/ssh/ssh_host_ed25519_key.pub"
        )
    if _strings(words[1])[:1] != [words[0].encode()]:
        raise ValueError(
            f"the public key is not whole: after {words[0]} all of its base64 is to follow, on one line"
        )
    return value


def _strings(encoded: str) -> list[bytes]:
    """What a key is made of: strings, each after its length in four bytes; nothing where it is not whole."""
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
    """This machine itself. Several nodes may be local; they share the machine's memory."""


class SshAccess(Strict):
    """A machine that is reached over SSH. `reconciler node add HOST` writes this."""

    host: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:%_-]*$", max_length=253)]
    """Name or address, or a `Host` of `~/.ssh/config`."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """Where its SSH server listens."""
    user: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$", max_length=64)]
    """Whose agent and ranks run there."""
    host_key: Annotated[str, StringConstraints(max_length=4096), AfterValidator(_host_key)]
    """The machine's public key, as in `/etc/ssh/ssh_host_ed25519_key.pub`. No other is accepted."""
    identity_file: Annotated[str, StringConstraints(pattern=r"^[/~]", max_length=1024)] | None = None
    """A private key on the controller's machine that logs in there, and no other. By default those in `~/.ssh` and of
    the SSH agent are tried."""


class Access(Strict):
    """How a node is reached, and what its ranks are started with: all that is needed to have an agent there."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["local"]}, {"required": ["ssh"]}]})

    local: LocalAccess | None = None
    """`{}`: the machine that the controller runs on. Either this or `ssh`."""
    ssh: SshAccess | None = None
    """Another machine. Either this or `local`."""
    python: Annotated[str, StringConstraints(pattern=r"^/", max_length=1024)] | None = None
    """An interpreter on the node, by its absolute path, that has `mlx`, `mlx-lm` and `reconciler` and that you keep
    in order. By default, on a local node, the controller's own, on others a managed one."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.local is None) == (self.ssh is None):
            raise ValueError(
                "exactly one of local and ssh is to be given: local: {} for the machine that the controller runs on,"
                " ssh: {host, user, hostKey} for another"
            )
        return self


LOCAL = Access(local=LocalAccess())


class NodeMemory(Strict):
    """What of the node's memory may be used for models."""

    reserve: Bytes = 0
    """Kept free for the system and everything else that runs there."""
    limit: Bytes | None = None
    """What ranks may use of it at most, all those on the machine together: such as the GPU's limit of wired memory."""


class Repair(Strict):
    """What may be done to this machine to heal it. It takes `sudo` without a password for exactly these commands:
    `reconciler node bootstrap` prints what allows them."""

    network: bool = False
    """Take the Thunderbolt ports that a Fabric's links use out of the bridge, and give each end of a link its address
    from `spec.addressing.pool`. What nobody confirms from outside within a minute undoes itself."""
    wired_limit: bool = False
    """Let the GPU have the memory that `spec.memory` leaves to models: its limit, or all but the reserve."""
    sleep: bool = False
    """Keep the machine from falling asleep while nobody sits before it."""
    reboot: bool = False
    """Restart it where nothing less helps and nothing serves on it: one machine at a time, each at most every
    six hours."""
    file_vault: bool = False
    """Restart it although FileVault is on: somebody, or something, unlocks its disk afterwards."""


class NodeSpec(Access):
    """A machine that ranks can run on."""

    address: Annotated[str, AfterValidator(_ipv4)] | None = None
    """At which the other nodes of a group reach it. By default the one at which the controller does."""
    memory: NodeMemory = NodeMemory()
    unschedulable: bool = False
    """No new ranks are placed here; those that run go on."""
    drain: bool = False
    """No rank runs here: those that do finish what they have, and move where they can. Implies unschedulable."""
    taints: Taints = ()
    """Each keeps off the deployments that do not tolerate it."""
    lost_after: Annotated[Seconds, Field(ge=1)] = 30.0
    """How long the node may give no answer before its groups are formed elsewhere. They get no requests meanwhile."""
    repair: Repair = Repair()
    reboot_from: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    """While the machine runs in this boot it is emptied and restarted, one machine at a time; from then on this asks
    for nothing any more. `reconciler reboot` puts the boot here that is to end."""

    @property
    def access(self) -> Access:
        """The part of it that says how the node is reached."""
        return Access(local=self.local, ssh=self.ssh, python=self.python)


class Node(Manifest):
    """One machine."""

    api_version: ApiVersion
    kind: Literal["Node"]
    """What the object is, and so which fields its spec has."""
    metadata: Metadata
    spec: NodeSpec
