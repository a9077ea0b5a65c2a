"""Checks the signature of every commit, so that none comes in under another's."""

from __future__ import annotations

from pathlib import Path

from reconciler.errors import Invalid, Refused
from reconciler.resources.git_repository import Verify
from reconciler.source.git.process import git_process

COMMITS_MAX = 1000
"""The most commits to check at once: each takes git some 10 ms."""
SECONDS_MAX = 60.0
_GOOD = "G"
_MEANINGS = {
    "N": "it is not signed",
    "B": "its signature is bad",
    "U": "its signer is not among the allowed signers",
    "E": "its signature cannot be checked: only those of SSH keys can",
}
_SETTINGS = {"gpg.program": "false", "gpg.openpgp.program": "false", "gpg.x509.program": "false"}
"""No key ring of this machine's user may decide what runs here."""


def check(git_dir: Path, verify: Verify, old: str | None, new: str) -> None:
    """Check every commit that is in ``new`` and not in ``old``. Raises ``Refused`` with the first that fails, and
    ``Invalid`` if the signers cannot be read."""
    signers = Path(verify.allowed_signers).expanduser()
    if not signers.is_file():
        raise Invalid(f"{signers}, the file of the allowed signers, cannot be read")
    known = [name for name in (old, verify.since) if name]
    settings = {**_SETTINGS, "gpg.ssh.allowedSignersFile": str(signers)}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    # A shallow or unknown "since" is an error of git, and not an empty set of commits.
    shape = ("log", "--topo-order", f"-n{COMMITS_MAX + 1}", "--format=%H %G?", new, "--not", *known)
    done = git_process((*words, f"--git-dir={git_dir}", *shape), b"", {}, SECONDS_MAX)
    if done.returncode:
        text = (
            f"the commit {verify.since} of verify.since is not in this branch"
            if verify.since
            else "git log failed"
        )
        raise Invalid(f"signatures cannot be checked: {text}")
    lines = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    for commit, found in lines:
        if found != _GOOD:
            said = _MEANINGS.get(found, f"git says {found}")
            text = f"{commit[:10]}: {said}; every commit since the last accepted one has to be signed"
            raise Refused("NotSigned", text)
    if len(lines) > COMMITS_MAX:
        text = (
            f"more than {COMMITS_MAX} commits at once, of which every signature would have to be checked; name the last"
            " one that you trust with --signed-since"
        )
        raise Refused("TooManyCommits", text)
