"""The cluster repo: a bare git repository whose branch ``main`` is the desired state.

Everything goes through the real ``git``, found on PATH, with a time-out on every call, no prompts, plain
English, and no configuration but the repository's own: a user's global hooks, signing or URL rewriting must
not change what the reconciler does. Only authors' names come from the user's configuration.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import Conflict, Invalid, InvalidManifests, Problem, Refused, Unreachable
from reconciler.source.yaml.pieces import DOCUMENTS_MAX, FILE_BYTES_MAX, too_large

from . import hooks
from .output import contents_of, yaml_blobs

BRANCH = "main"
REF = f"refs/heads/{BRANCH}"
IN_FORCE = "refs/reconciler/in-force"
"""The commit that came into force last, for a controller whose store is lost. No clone fetches it by itself."""
TIMEOUT_SECONDS = 30.0
PUSH_TIMEOUT_SECONDS = 120.0
LOCK_SECONDS_MAX = 600.0
"""git holds the lock of a branch for milliseconds: an older one is of a git that was killed."""
QUARANTINE_SECONDS_MAX = 24 * 3600.0
"""No push takes so long: objects in quarantine for longer are those of one that was killed."""
TOTAL_BYTES_MAX = 64 * 1024 * 1024
PUSH_BYTES_MAX = 256 * 1024 * 1024

_SETTINGS = {
    "core.hooksPath": "hooks",  # explicit, for a global hooksPath would win over the default
    "core.logAllRefUpdates": "true",
    "gc.auto": "6700",
    "receive.fsckObjects": "true",
    "receive.maxInputSize": str(PUSH_BYTES_MAX),
}
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Author:
    """Who a commit is by."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class ClusterRepo:
    """The bare repository at ``path``. Calls block, each for at most its time-out.

    All of them raise ``Invalid`` where git is missing or says that its input is wrong, and ``Unreachable``
    where it does not answer in time.
    """

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside the caller's own: within a hook those that show git the pushed objects."""

    @classmethod
    def create(cls, path: Path, hook_command: Sequence[str]) -> ClusterRepo:
        """The repository at ``path``, made where there is none; settings and hooks are brought up to date.

        ``hook_command`` validates a push: ``hooks.command()``.
        """
        repo = cls(path)
        if not (path / "HEAD").exists():
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise Invalid(f"{path} is there, but is no git repository: move it away")
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            run_git(("init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", str(path)))
        present = dict(
            entry.partition("\n")[::2] for entry in repo._git("config", "--local", "--list", "-z").split("\0")
        )
        for name, value in _SETTINGS.items():
            if present.get(name.lower()) != value:
                repo._git("config", "--local", name, value)
        hooks.install(path / "hooks", hook_command)
        _drop_leftovers(path)
        return repo

    # --- reading -----------------------------------------------------------------------------------

    def head(self) -> str | None:
        """The commit that ``main`` is at, or None before the first.

        A branch that is there and cannot be read is ``Invalid``: `git rev-parse` would take it for none.
        """
        return self._at(REF)

    def in_force(self) -> str | None:
        """The commit that ``keep`` was told of last, or None."""
        return self._at(IN_FORCE)

    def _at(self, name: str) -> str | None:
        arguments = self._located(("for-each-ref", "--format=%(objectname) %(refname)", name))
        process = _process(arguments, b"", self.environment, TIMEOUT_SECONDS)
        if process.returncode or name.encode() in process.stderr:
            raise self._damaged(_said(process.stderr))
        named = (line.split(" ", 1) for line in process.stdout.decode().splitlines())
        return next((revision for revision, ref in named if ref == name), None)

    def read(self, revision: str) -> dict[str, bytes]:
        """The YAML files of a commit, path to contents; links, submodules and hidden names are left out.

        Raises ``InvalidManifests`` where files are too large or too many to be read, and ``Invalid`` where
        objects of the commit are missing or damaged.
        """
        try:
            return self._read(_checked(revision))
        except InvalidManifests:
            raise
        except Invalid as error:
            raise self._damaged(str(error)) from None

    def _read(self, revision: str) -> dict[str, bytes]:
        blobs = yaml_blobs(self._bytes("ls-tree", "-r", "-z", "-l", "--full-tree", revision))
        problems = tuple(too_large(path, size) for path, (_, size) in blobs.items() if size > FILE_BYTES_MAX)
        if len(blobs) > DOCUMENTS_MAX or sum(size for _, size in blobs.values()) > TOTAL_BYTES_MAX:
            text = f"more than {DOCUMENTS_MAX} files or {TOTAL_BYTES_MAX} bytes of YAML"
            problems += (Problem(next(iter(blobs)), 1, 1, "", text),)
        if problems:
            raise InvalidManifests(problems)
        names = "".join(f"{sha}\n" for sha, _ in blobs.values()).encode()
        contents = self._bytes("cat-file", "--batch", stdin=names) if blobs else b""
        return dict(zip(blobs, contents_of(contents), strict=True))

    def _damaged(self, said: str) -> Invalid:
        return Invalid(
            f"{self.path}: damaged ({said}); move it away, make another with `reconciler init`, "
            "and push to that from a clone"
        )

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of blobs by their full object names."""
        if not names:
            return {}
        listed = "".join(f"{_checked(name)}\n" for name in names).encode()
        return dict(zip(names, contents_of(self._bytes("cat-file", "--batch", stdin=listed)), strict=True))

    def first_parents(self, limit: int) -> str:
        """git's raw log of what each commit on ``main`` changed of YAML files, newest first, as ``history`` reads it.

        A merge counts as what it brought to ``main``.
        """
        if self.head() is None:
            return ""
        shape = ("--first-parent", "-m", "--raw", "-z", "--no-renames", "--no-abbrev")
        fields = "--format=%H%x1f%an%x1f%at%x1f%s"
        return self._git("log", *shape, f"-n{limit}", fields, REF, "--", "*.yaml", "*.yml")

    def resolve(self, revision: str) -> str:
        """The commit that ``revision``, some characters of its name, is on ``main``. Raises ``Invalid``."""
        found = b""
        if re.fullmatch(r"[0-9a-f]{4,40}", revision):
            arguments = self._located(("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"))
            found = run_git(arguments, environment=self.environment, codes=(0, 1, 128))
        name, head = found.decode().strip(), self.head()
        if not name or head is None or not self.is_ancestor(name, head):
            raise Invalid(
                f"{revision} is no revision of {BRANCH}; expected at least 4 characters of a commit's name"
            )
        return name

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether ``newer`` was made on top of ``older``."""
        arguments = self._located(("merge-base", "--is-ancestor", _checked(older), _checked(newer)))
        process = _process(arguments, b"", self.environment, TIMEOUT_SECONDS)
        if process.returncode > 1:
            raise Invalid(f"git merge-base: {_said(process.stderr)}")
        return process.returncode == 0

    def keep(self, revision: str | None) -> None:
        """Note which commit is in force; None for none."""
        if revision is None:
            self._git("update-ref", "-d", IN_FORCE)
        else:
            self._git("update-ref", IN_FORCE, _checked(revision))

    # --- writing -----------------------------------------------------------------------------------

    def commit(
        self, base: str | None, changes: Mapping[str, bytes | None], message: str, author: Author
    ) -> str:
        """Make a commit on ``base`` and land it on ``main`` by a push, through the same hooks as anybody's.

        A value of None removes the file. Returns the new revision, or ``base`` where nothing changes. Raises
        ``Conflict`` when ``main`` is no longer at ``base``, and ``Refused`` with the hook's words.
        """
        tree = self._write_tree(base, changes)
        if base is not None and tree == self._git("rev-parse", f"{_checked(base)}^{{tree}}").strip():
            return base
        parents = ("-p", base) if base is not None else ()
        identity = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", author.name), ("EMAIL", author.email))
        }
        made = self._bytes("commit-tree", *parents, tree, stdin=message.encode(), environment=identity)
        revision = made.decode().strip()
        self._land(base, revision)
        return revision

    def _write_tree(self, base: str | None, changes: Mapping[str, bytes | None]) -> str:
        with tempfile.TemporaryDirectory(prefix="reconciler-index-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._bytes("read-tree", _checked(base) if base is not None else "--empty", environment=index)
            entries = b""
            for path, content in changes.items():
                _check_path(path)
                if content is None:
                    entries += b"0 " + b"0" * 40 + b"\t" + os.fsencode(path) + b"\0"
                else:
                    sha = self._bytes("hash-object", "-w", "--no-filters", "--stdin", stdin=content).strip()
                    entries += b"100644 " + sha + b"\t" + os.fsencode(path) + b"\0"
            self._bytes("update-index", "-z", "--index-info", stdin=entries, environment=index)
            return self._bytes("write-tree", environment=index).decode().strip()

    def _land(self, base: str | None, revision: str) -> None:
        arguments = (
            "push",
            "--porcelain",
            "--no-follow-tags",
            str(self.path.absolute()),
            f"{revision}:{REF}",
        )
        process = _process(self._located(arguments), b"", self.environment, PUSH_TIMEOUT_SECONDS)
        head = self.head()
        if process.returncode == 0 or head == revision:
            return
        if head != base:
            raise Conflict("somebody else has changed the cluster repo meanwhile: look again, then try again")
        raise Refused("Rejected", hook_words(process.stderr.decode("utf-8", "replace")))

    # --- git ---------------------------------------------------------------------------------------

    def _located(self, arguments: Sequence[str]) -> tuple[str, ...]:
        return (f"--git-dir={self.path}", *arguments)

    def _bytes(
        self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> bytes:
        return run_git(
            self._located(arguments), stdin=stdin, environment={**self.environment, **(environment or {})}
        )

    def _git(self, *arguments: str) -> str:
        return self._bytes(*arguments).decode("utf-8", "replace")


def _drop_leftovers(path: Path) -> None:
    """What a killed git leaves: locks keep everybody out, and what was received of a push takes up space.

    git removes no lock, and quarantined objects only in a `git gc`, which a small repository never has.
    """
    for lock in (path / f"{REF}.lock", path / "packed-refs.lock", path / "config.lock", path / "HEAD.lock"):
        if _age_seconds(lock) > LOCK_SECONDS_MAX:
            lock.unlink(missing_ok=True)
    for quarantine in (path / "objects").glob("tmp_objdir-*"):
        if _age_seconds(quarantine) > QUARANTINE_SECONDS_MAX:
            shutil.rmtree(quarantine, ignore_errors=True)


def _age_seconds(path: Path) -> float:
    """How long ago it was changed last; less than nothing where it is not there."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return -1.0


def author_of(folder: Path) -> Author:
    """The author that git would name for a commit made in ``folder``, by the user's own configuration.

    Where git has none: the account's name, at this host.
    """
    process = _process(("-C", str(folder), "var", "GIT_AUTHOR_IDENT"), b"", None, TIMEOUT_SECONDS)
    match = re.match(r"(.+) <([^<>]*)> \d+ [-+]\d{4}$", process.stdout.decode("utf-8", "replace").strip())
    if process.returncode == 0 and match:
        return Author(match[1], match[2])
    user = getpass.getuser()
    return Author(user, f"{user}@{socket.gethostname()}")


def hook_words(stderr: str) -> str:
    """What a hook on the other side printed, without git's ``remote: `` before every line."""
    lines = [
        line.removeprefix("remote:").strip(" ") for line in stderr.splitlines() if line.startswith("remote:")
    ]
    return "\n".join(line for line in lines if line) or stderr.strip() or "git push failed"


def run_git(
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> bytes:
    """Run git and return what it prints. Raises ``Invalid`` for an exit status that is not in ``codes``."""
    process = _process(arguments, stdin, environment or {}, timeout_seconds)
    if process.returncode not in codes:
        raise Invalid(f"git {_command(arguments)}: {_said(process.stderr)}")
    return process.stdout


def _process(
    arguments: Sequence[str], stdin: bytes, environment: Mapping[str, str] | None, timeout_seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """One git process with its own process group, which ends with the time-out.

    ``environment`` None leaves the user's own configuration in force.
    """
    command = ["git", "--no-pager", *arguments]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(environment),
            start_new_session=True,
        )
    except FileNotFoundError:
        raise Invalid("git is not installed, or not on PATH") from None
    except OSError as error:
        raise Unreachable(f"git cannot be started: {error}") from error
    with process:
        try:
            out, err = process.communicate(stdin, timeout_seconds)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"git {_command(arguments)} took more than {timeout_seconds:g} s") from None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if extra is None or not name.startswith("GIT_")}
    fixed = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    if extra is None:
        return {**kept, **fixed}
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return {**kept, **fixed, **own, **extra}


def _command(arguments: Sequence[str]) -> str:
    return next((argument for argument in arguments if not argument.startswith("-")), "")


def _said(stderr: bytes) -> str:
    return stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ") or "failed"


def _checked(revision: str) -> str:
    """A full object name: anything else could be taken for an option or an expression."""
    if not _SHA.fullmatch(revision):
        raise Invalid(f"expected a full commit id of 40 characters, got {revision[:60]!r}")
    return revision


def _check_path(path: str) -> None:
    """git itself skips in silence what it does not take as a path."""
    parts = path.split("/")
    if not path.isprintable() or any(part.lower() in ("", ".", "..", ".git") for part in parts):
        raise Invalid(f"expected a path within the cluster repo, got {path!r}")
