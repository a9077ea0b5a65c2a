"""The cluster repository: a bare git repository whose branch ``main`` is the desired state.

All calls run the ``git`` on PATH with a time-out, without prompts, in English, and with the repository's own
configuration only: a user's global hooks, signing or URL rewriting must not change what the reconciler does. Only
authors' names come from the user's configuration.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.errors import Conflict, Invalid, InvalidManifests, Problem, Refused
from reconciler.source.yaml.beside import wanted
from reconciler.source.yaml.objects import of_others
from reconciler.source.yaml.pieces import DOCUMENTS_MAX, FILE_BYTES_MAX, Beside, too_large

from . import hooks
from .layout import initialize, last_logged, restore
from .leftovers import drop_leftovers, lock_text, wait_until_free
from .output import LOG_FORMAT, chosen, contents_of, hook_words, yaml_blobs
from .process import PUSH_TIMEOUT_SECONDS, TIMEOUT_SECONDS, error_text, git_process, run_git

BRANCH = "main"
REF = f"refs/heads/{BRANCH}"
"""The wishes: the manifests that people want."""
OPERATIONS = "refs/heads/operations"
"""The operations on the running cluster, which last for a while, next to the wishes."""
IN_FORCE = "refs/reconciler/in-force"
"""Ref of the revision last in force, for a controller that lost its store. Clones do not fetch it."""
KEPT = "refs/reconciler/kept"
"""Ref of a text: the objects that the revision last in force does not change yet."""
SETTINGS = "refs/reconciler/settings"
"""Ref of a text: the settings below, for copies on other machines, which see refs but no configuration."""
OPERATIONS_IN_FORCE = "refs/reconciler/operations-in-force"
"""Ref of the operations last in force, for a controller that starts while the newest are wrong."""
EMPTY = "empty"
"""Revision of a repository without commits."""
NO_COMMIT = "0" * 40
"""Git's name for the commit of a branch that does not exist."""
TOTAL_BYTES_MAX = 64 * 1024 * 1024
MIRROR = "reconciler.mirror"
"""Setting of a repository whose ``main`` follows another repository: its URL."""
PATH = "reconciler.path"
"""Setting of a repository with manifests in only one folder: that folder."""
NO_FOLDER_TEXT = "there is no such folder in this commit; `reconciler source set --path FOLDER` names another"

_FORMAT = "core.repositoryformatversion"
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


Check = Callable[["ClusterRepo", str, str, str], str]
"""Takes a repository, a branch's old and new commit, and the branch. Returns the new commit's fault, or nothing."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a commit."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class ClusterRepo:
    """The bare repository at ``path``. Calls block, at most for their time-out.

    All methods raise ``Invalid`` if git is missing or rejects its input, and ``Unreachable`` if it does not finish
    in time.
    """

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables: within a hook, those that let git see the pushed objects."""
    check: Check | None = None
    """Checks a commit before ``commit`` pushes it, in place of the hook, which would import all this once more."""

    @classmethod
    def create(cls, path: Path, hook_command: Sequence[str], check: Check | None = None) -> ClusterRepo:
        """Create the repository at ``path`` if it is missing, and update its settings and hooks: ``hooks.command()``."""
        repo = cls(path, check=check)
        repo.restore()
        if not (path / "HEAD").exists():
            initialize(path, BRANCH)
        hooks.mend(path, hook_command)
        repo.tidy()
        return repo

    def restore(self) -> list[str]:
        """Restore lost parts that are known (``layout``). Return their paths in the repository. Raises ``OSError``
        too."""
        restored = restore(self.path, BRANCH, (REF, OPERATIONS))
        if "config" in restored:
            self.adopt()
        return restored

    def tidy(self) -> list[str]:
        """Remove the leftovers of a killed git: locks, which block everybody, and partly received pushes, which use
        space.

        Returns the removed paths in the repository. git never removes locks, and removes quarantined objects only in
        `git gc`, which a small repository never runs.
        """
        return [str(each.relative_to(self.path)) for each in drop_leftovers(self.path)]

    def wait_until_free(self) -> None:
        """Wait for the locks of other gits, and remove those of dead ones. Raises ``Refused`` if a lock stays."""
        if (lock := wait_until_free(self.path)) is not None:
            raise Refused("Locked", lock_text(lock))

    # --- reading -----------------------------------------------------------------------------------

    def head(self, ref: str = REF) -> str | None:
        """Return the commit at the head of a branch, by default of ``main``; None before the first.

        A branch that exists but cannot be read is ``Invalid``: `git rev-parse` would report it as missing.
        """
        return self._at(ref)

    def in_force(self, ref: str = IN_FORCE) -> str | None:
        """Return the last commit that ``keep`` noted at ``ref``, or None."""
        return self._at(ref)

    def configure(self, mirror: str, folder: str) -> None:
        """Store the URL that ``main`` mirrors (empty: none), and the folder with its manifests (empty: all of it)."""
        noted = {MIRROR: mirror, PATH: folder}
        for name, value in noted.items():
            if value:
                self.git("config", "--local", name, value)
            else:
                unset = self._located(("config", "--local", "--unset-all", name))
                run_git(unset, environment=self.environment, codes=(0, 5))  # 5: it was not set
        told = json.dumps({name: value for name, value in noted.items() if value})
        self.keep({SETTINGS: told.encode() if mirror or folder else None})

    def adopt(self) -> None:
        """Take over the settings that ``configure`` stored in the repository that the refs came from."""
        told = self._at(SETTINGS)
        noted: dict[str, str] = json.loads(self.blobs((told,))[told]) if told is not None else {}
        there = noted.get(MIRROR, ""), noted.get(PATH, "")
        if there != (self.mirrored(), self.folder()):
            self.configure(*there)

    def mirrored(self) -> str:
        """Return the URL that ``main`` mirrors, so that nobody may commit here; empty if it is no mirror."""
        return self._setting(MIRROR)

    def folder(self, ref: str = REF) -> str:
        """Return the folder that counts on a branch, such as ``clusters/studio`` for the manifests of ``main``; empty for
        everything. Operations always belong to the home."""
        return self._setting(PATH) if ref == REF else ""

    def _setting(self, name: str) -> str:
        pattern = f"^({re.escape(name)}|{re.escape(_FORMAT)})$"
        arguments = self._located(("config", "--local", "-z", "--get-regexp", pattern))
        listed = run_git(arguments, environment=self.environment, codes=(0, 1)).decode().split("\0")
        found = dict(entry.partition("\n")[::2] for entry in listed)
        if _FORMAT not in found:
            raise self._damaged("its config is lost")
        return found.get(name, "").strip()

    def _at(self, name: str) -> str | None:
        arguments = self._located(("for-each-ref", "--format=%(objectname) %(refname)", name))
        process = git_process(arguments, b"", self.environment, TIMEOUT_SECONDS)
        if process.returncode or name.encode() in process.stderr:
            raise self._damaged(error_text(process.stderr))
        named = (line.split(" ", 1) for line in process.stdout.decode().splitlines())
        found = next((revision for revision, ref in named if ref == name), None)
        if found is None and last_logged(self.path, name):  # git removes the log of a branch with it
            raise self._damaged(f"{name} is lost")
        return found

    def read(
        self, revision: str, ref: str = REF, listing: bytes | None = None, folder: str | None = None
    ) -> dict[str, bytes]:
        """Return the manifests of a commit by path, without JSON of others, links, submodules and hidden names; and the files
        that its Jobs name, each as ``beside.Beside``.

        ``ref``: the branch of the commit. ``listing``: the result of ``tree`` for it. ``folder``: read this one in
        place of the folder that counts now. Raises ``InvalidManifests`` if files are too large or too many, and
        ``Invalid`` if objects of the commit are missing or damaged.
        """
        try:
            listing = self.tree(revision, ref, folder) if listing is None else listing
            found = self._read(listing)
            if paths := wanted(found) - found.keys():
                part = self.folder(ref) if folder is None else folder
                found |= self._beside(self.tree(revision, ref, "") if part else listing, paths)
            return found
        except InvalidManifests:
            raise
        except Invalid as error:
            raise self._damaged(str(error)) from None

    def _read(self, listing: bytes) -> dict[str, bytes]:
        blobs = yaml_blobs(listing)
        problems = tuple(too_large(path, size) for path, (_, size) in blobs.items() if size > FILE_BYTES_MAX)
        if len(blobs) > DOCUMENTS_MAX or sum(size for _, size in blobs.values()) > TOTAL_BYTES_MAX:
            text = f"more than {DOCUMENTS_MAX} files or {TOTAL_BYTES_MAX} bytes of YAML"
            problems += (Problem(next(iter(blobs)), 1, 1, "", text),)
        if problems:
            raise InvalidManifests(problems)
        contents = self.blobs([sha for sha, _ in blobs.values()])
        found = {path: contents[sha] for path, (sha, _) in blobs.items()}
        return {path: content for path, content in found.items() if not of_others(path, content)}

    def _beside(self, listing: bytes, paths: Collection[str]) -> dict[str, bytes]:
        """Return the files that Jobs name. ``listing``: of the whole commit, where their paths begin."""
        blobs, absent = chosen(listing, paths)
        contents = self.blobs([*blobs.values()])
        return {**{path: Beside(contents[sha]) for path, sha in blobs.items()}, **absent}

    def _damaged(self, problem: str) -> Invalid:
        return Invalid(
            f"{self.path} is damaged ({problem}); move it away, create another with `reconciler init`, "
            "and push to that from a clone"
        )

    def blobs(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of blobs by their full object names."""
        if not names:
            return {}
        listed = "".join(f"{_checked(name)}\n" for name in names).encode()
        return dict(zip(names, contents_of(self._bytes("cat-file", "--batch", stdin=listed)), strict=True))

    def tree(self, revision: str, ref: str = REF, folder: str | None = None) -> bytes:
        """Return git's listing of all files in the folder that counts on the commit's branch, with modes and sizes.

        Raises ``InvalidManifests`` if a commit has no such folder.
        """
        folder = self.folder(ref) if folder is None else folder
        below = (f"{folder}/",) if folder else ()
        listing = self._bytes("ls-tree", "-r", "-z", "-l", "--full-tree", _checked(revision), "--", *below)
        if folder and not listing:
            raise InvalidManifests((Problem(folder, 1, 1, "", NO_FOLDER_TEXT),))
        return listing

    def has(self, revision: str, folder: str) -> bool:
        """Return whether a commit has files in a folder; ``""`` is the whole commit."""
        listed = ("ls-tree", "-z", "--full-tree", _checked(revision), "--", f"{folder}/")
        return not folder or bool(self._bytes(*listed))

    def changes(self, old: str, new: str) -> bytes:
        """Return git's raw log of the commits that are in ``new`` and not in ``old``, for ``output.changes_of``."""
        begin = (f"^{_checked(old)}",) if old.strip("0") else ()
        fields = f"--format={LOG_FORMAT}"
        shape = ("--raw", "-m", "-z", "--no-renames", "--no-abbrev")
        return self._bytes("log", *shape, fields, *begin, _checked(new), "--")

    def sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the sizes of objects in bytes by their full names. Raises ``Invalid`` if one is missing."""
        if not names:
            return {}
        listed = "".join(f"{_checked(name)}\n" for name in names).encode()
        shape = "--batch-check=%(objectname) %(objectsize)"
        lines = self._bytes("cat-file", shape, stdin=listed).decode().splitlines()
        found = dict(line.split(" ") for line in lines)
        missing = next((name for name, size in found.items() if not size.isdigit()), None)
        if missing is not None:
            raise Invalid(f"object {missing} is missing")
        return {name: int(size) for name, size in found.items()}

    def resolve(self, revision: str, ref: str = REF) -> str:
        """Return the commit of a branch, by default ``main``, whose name begins with ``revision``. Raises ``Invalid``."""
        found = b""
        if re.fullmatch(r"[0-9a-f]{4,40}", revision):
            arguments = self._located(("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"))
            found = run_git(arguments, environment=self.environment, codes=(0, 1, 128))
        name, head = found.decode().strip(), self.head(ref)
        if not name or head is None or not self.is_ancestor(name, head):
            raise Invalid(
                f"{revision} is not a revision of {ref.rpartition('/')[2]}; expected at least 4 characters of a commit id;"
                " list them with: reconciler history"
            )
        return name

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the newest commit that both have; None if there is none."""
        arguments = self._located(("merge-base", _checked(one), _checked(other)))
        return run_git(arguments, environment=self.environment, codes=(0, 1)).decode().strip() or None

    def is_ancestor(self, older: str, newer: str) -> bool:
        arguments = self._located(("merge-base", "--is-ancestor", _checked(older), _checked(newer)))
        process = git_process(arguments, b"", self.environment, TIMEOUT_SECONDS)
        if process.returncode > 1:
            raise Invalid(f"git merge-base: {error_text(process.stderr)}")
        return process.returncode == 0

    def keep(self, noted: Mapping[str, str | bytes | None]) -> None:
        """Store the commit in force, or a text, at each ref, for all refs or none; None removes a ref."""
        names = {ref: self._blob(each) if isinstance(each, bytes) else each for ref, each in noted.items()}
        lines = [
            f"delete {ref}\n" if name is None else f"update {ref} {_checked(name)}\n"
            for ref, name in names.items()
        ]
        self.wait_until_free()
        self.git("update-ref", "--stdin", stdin="".join(lines).encode())

    # --- writing -----------------------------------------------------------------------------------

    def commit(
        self,
        base: str | None,
        changes: Mapping[str, bytes | None],
        message: str,
        author: Author,
        ref: str = REF,
    ) -> str:
        """Make a commit on ``base`` and push it to a branch, by default ``main``, checked as every push.

        A value of None removes the file; the path of a ``Beside`` begins at the root. Returns the new revision, or ``base`` if nothing changes. Raises
        ``Conflict`` if the branch is no longer at ``base``, and ``Refused`` with the hook's message, or if ``main`` is a
        mirror.
        """
        url = self.mirrored() if ref == REF else ""
        if url:
            raise Refused("Mirrored", mirror_text(url))
        files = {
            path if isinstance(each, Beside) else self._within(path, ref): each
            for path, each in changes.items()
        }
        tree = self._write_tree(base, files)
        if base is not None and tree == self.git("rev-parse", f"{_checked(base)}^{{tree}}").strip():
            return base
        parents = ("-p", base) if base is not None else ()
        identity = {
            f"GIT_{role}_{part}": value
            for role in ("AUTHOR", "COMMITTER")
            for part, value in (("NAME", author.name), ("EMAIL", author.email))
        }
        made = self._bytes("commit-tree", *parents, tree, stdin=message.encode(), environment=identity)
        revision = made.decode().strip()
        self._land(base, revision, ref)
        return revision

    def _within(self, path: str, ref: str) -> str:
        """Return the path of a file that may be named without the folder of the manifests."""
        folder = self.folder(ref)
        return path if not folder or path.startswith(f"{folder}/") else f"{folder}/{path}"

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
                    entries += f"100644 {self._blob(content)}\t".encode() + os.fsencode(path) + b"\0"
            self._bytes("update-index", "-z", "--index-info", stdin=entries, environment=index)
            return self._bytes("write-tree", environment=index).decode().strip()

    def _blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--no-filters", "--stdin", stdin=content).strip()

    def _land(self, base: str | None, revision: str, ref: str) -> None:
        self.wait_until_free()
        checked: tuple[str, ...] = ()
        if self.check is not None:
            if objection := self.check(self, base or NO_COMMIT, revision, ref):
                raise Refused("Rejected", objection)
            checked = (f"--receive-pack=git -c core.hooksPath=hooks/{hooks.CHECKED} receive-pack",)
        where = (str(self.path.absolute()), f"{revision}:{ref}")
        arguments = ("push", "--porcelain", "--no-follow-tags", *checked, *where)
        process = git_process(self._located(arguments), b"", self.environment, PUSH_TIMEOUT_SECONDS)
        head = self.head(ref)
        if process.returncode == 0 or head == revision:
            return
        if head != base:
            raise Conflict(
                "somebody else has changed the cluster repository meanwhile: check the change, then try again"
            )
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

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Return git's output about the repository. Every name among the arguments is a full one."""
        return self._bytes(*arguments, stdin=stdin).decode("utf-8", "replace")


def mirror_text(url: str) -> str:
    """Return the message that ``main`` takes no commits because it mirrors ``url``, with what to do instead."""
    return f"{BRANCH} is a mirror: the truth is at {url}; push the change there, and it is fetched"


def _checked(revision: str) -> str:
    """Return a full object name: git could read other text as an option or an expression."""
    if not _SHA.fullmatch(revision):
        raise Invalid(f"expected a full commit id of 40 characters, got {revision[:60]!r}")
    return revision


def _check_path(path: str) -> None:
    """Raise ``Invalid`` for a path that git would silently skip."""
    parts = path.split("/")
    if not path.isprintable() or any(part.lower() in ("", ".", "..", ".git") for part in parts):
        raise Invalid(f"expected a path within the cluster repository, got {path!r}")
