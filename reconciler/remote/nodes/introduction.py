"""The first contact with a machine, before it has a manifest: its host key, and an inspection."""

from __future__ import annotations

import asyncio
import getpass
import logging
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from reconciler.errors import Refused, Silent, Unreachable
from reconciler.remote.bootstrap.profile import MARK, pairs
from reconciler.remote.commands import Completed, run_locally
from reconciler.remote.runtime.agent_file import Bundle
from reconciler.remote.ssh import obstacles
from reconciler.remote.ssh.connection import KEY_ALGORITHMS, fingerprint
from reconciler.resources import Access, SshAccess

from .node_over_ssh import SshNode

LOOK_SECONDS = 20.0
_WORDS_MAX = 500
_ALGORITHMS = [algorithm for kind in KEY_ALGORITHMS.values() for algorithm in kind]
_SCRIPT = """
PATH=/usr/bin:/bin:/usr/sbin:/sbin; export PATH
say() { printf '%s %s %s\\n' MARK "$1" "$2"; }
if [ "$(uname -s)" = Darwin ]; then
    say name "$(scutil --get LocalHostName)"; say chip "$(sysctl -n machdep.cpu.brand_string)"
    say bytes "$(sysctl -n hw.memsize)"; say system "macOS $(sw_vers -productVersion)"
else
    say name "$(uname -n)"; say chip "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
    say bytes "$(($(sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo) * 1024))"
    say system "$( (. /etc/os-release && echo "$PRETTY_NAME") 2>/dev/null || uname -sr)"
fi
""".replace("MARK", MARK)


@dataclass(frozen=True, slots=True)
class HostKey:
    """The host key that a server presents."""

    line: str
    """Type and base64, in the form of manifests."""
    fingerprint: str
    """The fingerprint in the form of ``ssh-keygen -l``."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A machine's own description; unknown parts are empty."""

    name: str
    chip: str
    memory_bytes: int
    system: str


def current_user() -> str:
    return getpass.getuser()


def fingerprint_of(line: str) -> str:
    """Return the fingerprint of a manifest's host key. Raises ``Unreachable`` for an invalid key."""
    try:
        return fingerprint(asyncssh.import_public_key(line))
    except asyncssh.KeyImportError as error:
        raise Unreachable(f"the host key in the manifest is invalid: {error}") from error


async def host_key(host: str, port: int | None) -> HostKey:
    """Return the key that the server presents, preferably Ed25519. Only a comparison at the machine itself can confirm
    it.

    Raises ``Silent`` if there is no server, ``Barred`` if macOS keeps this program from the local network.
    """
    asyncssh.set_log_level(logging.WARNING)
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            found = await asyncssh.get_server_host_key(host, port or (), server_host_key_algs=_ALGORITHMS)
    except TimeoutError:
        raise Silent(f"{host} does not answer within {LOOK_SECONDS:g} s") from None
    except (asyncssh.Error, OSError, ValueError) as error:
        if obstacles.no_route(error) and await obstacles.ssh_reaches(host, port):
            raise obstacles.private(host) from error
        raise Silent(f"no SSH server answers at {host}: {error}") from error
    if found is None:
        raise Silent(f"{host} presents no host key")
    return HostKey(" ".join(found.export_public_key().decode("ascii").split()[:2]), fingerprint(found))


async def survey(access: SshAccess) -> Survey:
    """Log in and inspect the machine; changes nothing. Raises ``Barred`` and other ``Unreachable``."""
    done = await _run(access, ("/bin/sh", "-c", _SCRIPT), LOOK_SECONDS)
    values = dict(pairs(done.out))
    size = values.get("bytes", "")
    return Survey(
        values.get("name", ""),
        values.get("chip", ""),
        int(size) if size.isdigit() else 0,
        values.get("system", ""),
    )


async def examine(access: SshAccess, script: str, words: tuple[str, ...], seconds: float) -> str:
    """Log in, run a script of plain ``sh`` and return its output. Raises ``Barred`` and other ``Unreachable``,
    ``Refused`` if the script fails."""
    return _printed(access.host, await _run(access, ("/bin/sh", "-c", script, "examine", *words), seconds))


async def examine_here(script: str, words: tuple[str, ...], seconds: float) -> str:
    """Run the script on this machine, as ``examine`` does elsewhere. Raises ``Silent``, ``Refused``."""
    try:
        done = await run_locally("/bin/sh", "-c", script, "examine", *words, timeout=seconds)
    except TimeoutError:
        raise Silent(f"the examination did not end within {seconds:g} s") from None
    return _printed("localhost", done)


def _printed(host: str, done: Completed) -> str:
    if done.status != 0:
        words = (done.err or done.out).strip()[-_WORDS_MAX:] or f"exit status {done.status}"
        raise Refused("NotExamined", f"{host}: {words.removeprefix('examine-mac.sh: ')}")
    return done.out


async def _run(access: SshAccess, argv: tuple[str, ...], seconds: float) -> Completed:
    node = SshNode(access.host, Access(ssh=access), Bundle("", b""), asyncio.Semaphore(1), Path())
    try:
        return await node.run(argv, timeout=seconds)
    finally:
        await node.close()
