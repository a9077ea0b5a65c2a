"""One look at a remote repository: fetch, check, and move ``main``.

Fetched commits go into a separate repository, which only borrows the objects of the home's. Refused commits are deleted
with it. Only commits that pass every check come into the home's repository, and its branch moves last.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import Conflict, Invalid, InvalidManifests, Refused, Unreachable
from reconciler.resources.git_repository import GitRepositorySpec, Ref, Verify
from reconciler.source.git.hooks import PUSH_BYTES_MAX
from reconciler.source.git.layout import init_bare
from reconciler.source.git.process import error_text, git_process, run_git
from reconciler.source.git.repository import BRANCH, NO_FOLDER_TEXT, PATH, REF, ClusterRepo

from .transport import diverted, environment_of, settings_of

LIST_SECONDS, FETCH_SECONDS = 30.0, 120.0
REMOTE = "refs/reconciler/remote"
"""The newest commit of the remote that was accepted."""
PLACE = "incoming-"
"""The prefix of the names of folders in the home for fetches."""
_FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")

TEXT_MAX = 500
"""The most characters of git's own message that are repeated."""
_BARRED = {
    "Host key verification failed": "the server shows another host key than the pinned file has",
    "Permission denied": "the server does not let this SSH key in",
    "Authentication failed": "the server does not take this token (Authentication failed)",
    "could not read ": "the server asks for a token; name it with --token-file",
    "returned error: 403": "the server does not let this token read it (403)",
    "mismatched algorithms": "its objects have names of SHA-256, and only those of SHA-1 can be followed; make a"
    " repository with: git init --object-format=sha1",
}
"""Messages of git about faults that do not pass by themselves, with their meaning."""
_NOT_FOUND = re.compile(r"repository '[^']*' not found")

SIGNED_MAX = 1000
"""The most commits whose signatures are checked at once: each takes git some 10 ms."""
SIGNED_SECONDS = 60.0
_SIGNED = "G"
_NOT_SIGNED = {
    "N": "it is not signed",
    "B": "its signature is bad",
    "U": "its signer is not among the allowed signers",
    "E": "its signature cannot be checked: only those of SSH keys can",
}
_NO_KEY_RINGS = {"gpg.program": "false", "gpg.openpgp.program": "false", "gpg.x509.program": "false"}
"""No key ring of this machine's user may decide what runs here."""

Check = Callable[[ClusterRepo, str | None, str], str]
"""Takes a repository, the commit of ``main`` and the new one. Returns why that is not accepted, as a push would be;
empty if it is. May also raise ``Refused`` and ``InvalidManifests``."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of a look."""

    revision: str
    """The commit at the remote's branch."""
    moved: bool = False
    """True if this look has moved ``main`` there."""
    dropped: int = 0
    """The number of commits that the branch has lost since."""
    refusal: str = ""
    """The reason that ``main`` did not move; empty if it is at ``revision``."""


@dataclass(frozen=True, slots=True)
class Remote:
    """The remote of a home's repository. Calls block, at most for their time-outs.

    ``check`` judges manifests as a push's; ``verify`` raises if another controller has taken over.
    """

    repo: ClusterRepo
    check: Check
    verify: Callable[[], None]
    environ: Mapping[str, str]
    bytes_max: int = PUSH_BYTES_MAX
    """The most bytes that one fetch may bring."""

    def look(self, spec: GitRepositorySpec, known: Look | None, at_once: bool) -> Look:
        """Look once, and accept new commits that pass the checks.

        ``known``: the last look with these settings; a commit that it refused is not fetched again. ``at_once``: a new
        commit is expected, and is fetched without asking first.

        Raises ``Unreachable`` if the remote is away, ``Invalid`` for a fault that a person must correct here or there,
        and ``Conflict`` if ``main`` moved meanwhile.
        """
        head = self.repo.head()
        with _place(self.repo.path.parent) as place:
            git = _Git(spec, place, environment_of(spec, place, self.environ), self.bytes_max)
            if (known is not None and known.refusal) or not at_once:
                revision = git.listed()
                if known is not None and revision == known.revision and (known.refusal or revision == head):
                    return Look(revision, refusal=known.refusal)
                if revision == head:
                    return self._unmoved(spec, revision)
            revision = git.fetched(self.repo)
            if revision == head:
                return self._unmoved(spec, revision)
            return self._judged(spec, ClusterRepo(place / "git"), head, revision)

    def files(self, spec: GitRepositorySpec, branch: str, commit: str) -> dict[str, bytes]:
        """Return the manifests of a commit, and the files of its Jobs, at the head of another branch, and keep nothing of it.

        Raises ``Refused`` if the branch is not at ``commit``, ``InvalidManifests``, and like ``look``.
        """
        try:
            other = spec.model_copy(update={"ref": Ref(branch=branch)})
        except ValueError as error:
            raise Refused("Unusable", f"the branch cannot be fetched: {error}") from None
        with _place(self.repo.path.parent, "request-") as place:
            git = _Git(other, place, environment_of(spec, place, self.environ), self.bytes_max)
            found = git.fetched(self.repo)
            if found != commit:
                raise Refused("Moved", f"{branch} is at {found[:10]} by now")
            return ClusterRepo(place / "git").read(commit)

    def configure(self, spec: GitRepositorySpec | None) -> None:
        """Store in the home's repository that its ``main`` is a mirror, and the folder that counts; None ends the
        mirror."""
        configure(self.repo, spec)

    def _unmoved(self, spec: GitRepositorySpec, revision: str) -> Look:
        missing = not self.repo.has(revision, spec.path)
        return Look(revision, refusal=f"{spec.path}: {NO_FOLDER_TEXT}" if missing else "")

    def _judged(self, spec: GitRepositorySpec, fetched: ClusterRepo, head: str | None, revision: str) -> Look:
        dropped = 0
        if head is not None and not fetched.is_ancestor(head, revision):
            dropped = int(fetched.git("rev-list", "--count", head, f"^{revision}"))
            if not spec.allow_rewind:
                return Look(revision, dropped=dropped, refusal=_rewound(spec, head, revision, dropped))
        try:
            if spec.verify is not None:
                _check_signatures(fetched.path, spec.verify, head, revision)
            refusal = self.check(fetched, head, revision)
        except (Refused, InvalidManifests) as error:
            refusal = str(error)
        if refusal:
            return Look(revision, dropped=dropped, refusal=refusal)
        self._take(spec, fetched, head, revision)
        return Look(revision, moved=True, dropped=dropped)

    def _take(self, spec: GitRepositorySpec, fetched: ClusterRepo, head: str | None, revision: str) -> None:
        own = f"--git-dir={self.repo.path}"
        self.verify()
        run_git((own, *_FETCH, str(fetched.path), f"+{REF}:{REMOTE}"), timeout_seconds=FETCH_SECONDS)
        self.verify()
        if self.repo.mirrored() != spec.url:
            raise Conflict("the remote was set otherwise meanwhile")
        self.repo.configure(spec.url, spec.path)  # before main moves: only the folder is ever read
        moved = git_process((own, "update-ref", REF, revision, head or ""), b"", {}, LIST_SECONDS)
        if moved.returncode:
            raise Conflict(f"main moved meanwhile: {error_text(moved.stderr)}")


def _check_signatures(git_dir: Path, verify: Verify, old: str | None, new: str) -> None:
    """Check every commit that is in ``new`` and not in ``old``. Raises ``Refused`` with the first that fails, and
    ``Invalid`` if the signers cannot be read."""
    signers = Path(verify.allowed_signers).expanduser()
    if not signers.is_file():
        raise Invalid(f"{signers}, the file of the allowed signers, cannot be read")
    known = [name for name in (old, verify.since) if name]
    settings = {**_NO_KEY_RINGS, "gpg.ssh.allowedSignersFile": str(signers)}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    # A shallow or unknown "since" is an error of git, and not an empty set of commits.
    shape = ("log", "--topo-order", f"-n{SIGNED_MAX + 1}", "--format=%H %G?", new, "--not", *known)
    done = git_process((*words, f"--git-dir={git_dir}", *shape), b"", {}, SIGNED_SECONDS)
    if done.returncode:
        text = (
            f"the commit {verify.since} of verify.since is not in this branch"
            if verify.since
            else "git log failed"
        )
        raise Invalid(f"signatures cannot be checked: {text}")
    lines = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    for commit, found in lines:
        if found != _SIGNED:
            said = _NOT_SIGNED.get(found, f"git says {found}")
            text = f"{commit[:10]}: {said}; every commit since the last accepted one has to be signed"
            raise Refused("NotSigned", text)
    if len(lines) > SIGNED_MAX:
        text = (
            f"more than {SIGNED_MAX} commits at once, of which every signature would have to be checked; name the last"
            " one that you trust with --signed-since"
        )
        raise Refused("TooManyCommits", text)


def _rewound(spec: GitRepositorySpec, head: str, revision: str, dropped: int) -> str:
    return (
        f"{spec.ref.branch} of {spec.url} is at {revision[:10]}, which does not have {dropped} commit"
        f"{'' if dropped == 1 else 's'} up to {head[:10]}, the last accepted one: it was rewound, or is another"
        f" repository. Push {head[:10]} there again, or accept what is there with: reconciler source set --allow-rewind"
    )


@contextmanager
def _place(home: Path, kind: str = "branch-") -> Iterator[Path]:
    """Make a folder in the home that is deleted at the end, and at the next look if this process is killed. ``kind``:
    folders of different kinds are used at the same time."""
    for left in home.glob(f"{PLACE}{kind}*"):
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=PLACE + kind, dir=home))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _Git:
    spec: GitRepositorySpec
    place: Path
    environment: Mapping[str, str]
    bytes_max: int

    def listed(self) -> str:
        out = self._run(("ls-remote", "--quiet", self.spec.url, self._ref), LIST_SECONDS)
        lines = [line.split("\t") for line in out.decode("utf-8", "replace").splitlines()]
        found = [words[0] for words in lines if words[1:] == [self._ref]]
        if not found:
            raise self._missing()
        return found[0]

    def fetched(self, repo: ClusterRepo) -> str:
        """Fetch the branch into a separate repository, and return its commit."""
        git_dir = self.place / "git"
        init_bare(git_dir, BRANCH)
        borrowed = git_dir / "objects" / "info"
        borrowed.mkdir(exist_ok=True)
        (borrowed / "alternates").write_text(f"{(repo.path / 'objects').absolute()}\n", encoding="utf-8")
        if self.spec.path:
            run_git((f"--git-dir={git_dir}", "config", PATH, self.spec.path))
        self._run((f"--git-dir={git_dir}", *_FETCH, self.spec.url, f"+{self._ref}:{REF}"), FETCH_SECONDS)
        found = ClusterRepo(git_dir).head()
        if found is None:
            raise self._missing()
        return found

    @property
    def _ref(self) -> str:
        return f"refs/heads/{self.spec.ref.branch}"

    def _run(self, words: tuple[str, ...], seconds: float) -> bytes:
        done = git_process((*settings_of(self.spec), *words), b"", self.environment, seconds, self.bytes_max)
        if done.returncode == 0:
            return done.stdout
        text = " ".join(error_text(done.stderr).split())
        if "couldn't find remote ref" in text:
            raise self._missing()
        if "signal 25" in text or "File too large" in text or done.returncode in (-25, 153):
            raise Refused("TooLarge", f"{self.spec.url} brings more than {self.bytes_max} bytes at once")
        meaning = next((meaning for word, meaning in _BARRED.items() if word in text), "")
        meaning = diverted(self.spec, self.place) or meaning
        if not meaning and _NOT_FOUND.search(text):
            meaning = (
                "there is no such repository, or whoever asks may not read it; name a token with --token-file"
            )
        shown = f"{self.spec.url} cannot be fetched: {meaning or text[:TEXT_MAX]}"
        raise Invalid(shown) if meaning else Unreachable(shown)

    def _missing(self) -> Invalid:
        if page := diverted(self.spec, self.place):
            return Invalid(f"{self.spec.url} cannot be fetched: {page}")
        return Invalid(
            f"{self.spec.url} has no branch {self.spec.ref.branch}; push it, or name another with --branch"
        )


def configure(repo: ClusterRepo, spec: GitRepositorySpec | None) -> None:
    """Store in a home's repository that its ``main`` is a mirror, and the folder that counts. None ends the mirror but
    keeps the folder, because files outside it still do not count. A folder that ``main`` does not have yet counts from
    the look that brings it, so that the present manifests stay in force until then."""
    if spec is None and not repo.mirrored():
        return
    head = repo.head()
    new = spec is not None and (head is None or repo.has(head, spec.path))
    repo.configure(spec.url if spec else "", spec.path if spec and new else repo.folder())
