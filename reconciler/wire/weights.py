"""Weights that a node fetches: their folders, their record, and the progress of a fetch.

The agent starts ``python -m reconciler.fetcher`` with a ``FetchJob`` as one line of JSON on its standard input, and
reads a ``Progress`` from each line of its standard output. The fetcher ends when its standard input does.

Below the node's models, ``hub/<repository with -- for />/<revision>`` exists exactly when every file in it has
been verified; until then its files are in ``.<revision>.partial``, in the same folder.

If a node needs only some of the weight files, it has *outlines* of the others: sparse files of the same name and size
with only their header. So every tensor is described on every node, and a reader that may run a rank there checks
``Record.outlined`` before it reads any.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from pathlib import Path
from typing import Mapping, Optional, Tuple

HUB = "hub"
RECORD_NAME = ".reconciler.json"
"""Name of the ``Record`` in the folder of the weights."""
SHARDS = "model*.safetensors"
"""The only names under which mlx-lm looks for tensors (``mlx_lm.utils.load_model``)."""
RECORD_BYTES_MAX = 16 * 1024 * 1024
TOKEN_VARIABLE = "HF_TOKEN"
"""Variable in the fetcher's environment. The token is only there and in the request."""


SPARE_BYTES = 1024**3
"""Bytes that stay free on the disk of weights, because the machine has other things to write."""


def hub_path(repo: str, revision: str) -> str:
    """Return the path of one commit's weights, below a node's models."""
    return "/".join((HUB, repo_folder(repo), revision))


def repo_folder(repo: str) -> str:
    return repo.replace("/", "--")


def is_hub_path(path: str) -> bool:
    """Return whether weights at this path are fetched, and therefore visible only when verified."""
    return path.startswith(HUB + "/") and path.count("/") == 2


def is_shard(name: str) -> bool:
    return fnmatch.fnmatchcase(name, SHARDS)


def partial_folder(folder: Path) -> Path:
    """Return the folder in which weights are assembled until they are complete and verified."""
    return folder.with_name(".{}.partial".format(folder.name))


class FetchProblem:
    """Reasons why a fetch ended without weights."""

    INTERRUPTED = "FetchInterrupted"
    """The connection broke, or the fetcher was ended; the next fetch continues."""
    TRUNCATED = "FetchTruncated"
    """The hub sends less than it announces."""
    CORRUPTED = "FetchCorrupted"
    """The content differs from the hub's digest after every download."""
    UNAUTHORIZED = "HubUnauthorized"
    """401: no token, or one that is not valid."""
    FORBIDDEN = "HubForbidden"
    """403: a gated repository whose terms were not accepted with this token."""
    NOT_FOUND = "HubNotFound"
    """404: no such repository or revision; or a private repository, and no token."""
    UNREACHABLE = "HubUnreachable"
    DISK_FULL = "DiskFull"
    NOT_ALLOWED = "FilesNotAllowed"
    """macOS refuses the folder to the fetcher for lack of a person's consent."""
    NOT_SERVABLE = "NothingToServe"
    """The repository has no weights in a form that can be served."""
    NO_CLIENT = "HubClientMissing"
    """The runtime's Python has no huggingface_hub, or cannot be started."""
    FAILED = "FetchFailed"
    """Any other reason, which the text names."""

    ALL = (
        INTERRUPTED, TRUNCATED, CORRUPTED, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, UNREACHABLE, DISK_FULL,
        NOT_ALLOWED, NOT_SERVABLE, NO_CLIENT, FAILED,
    )  # fmt: skip
    PASSING = (INTERRUPTED, TRUNCATED, UNREACHABLE)
    """Problems that another attempt may soon avoid."""


class FetchPhase:
    """The activity of a fetcher."""

    LISTING = "listing"
    FETCHING = "fetching"
    VERIFYING = "verifying"
    DONE = "done"
    FAILED = "failed"

    ENDED = (DONE, FAILED)


class FileState:
    """The result of verifying one file."""

    VERIFIED = "verified"
    DAMAGED = "damaged"
    MISSING = "missing"
    FETCHED = "fetched again"
    OUTLINED = "not needed here"
    """Only its outline is present, as requested."""


class PromptReuse:
    """The reuse of a model's cache for prompts that begin alike."""

    ANY = "any"
    """Any first part of an entry can be used."""
    WHOLE = "whole"
    """An entry can be used only with all of its tokens."""
    NONE = "none"
    """Every prompt is read again."""


@dataclasses.dataclass(frozen=True)
class FetchSource:
    """One commit of a repository, and the wanted part of it."""

    repo: str
    revision: str
    endpoint: str = ""
    """URL of the hub; empty for Hugging Face's."""
    code: bool = False
    """Include Python files: only for a Model that trusts them."""


@dataclasses.dataclass(frozen=True)
class FetchJob:
    """The task of a fetcher."""

    folder: str
    """Absolute path of the final folder."""
    source: FetchSource
    thorough: bool = False
    """Hash files that were verified before, too."""
    listen: str = ""
    """Absolute path of a Unix socket over which another node gives the weights; empty: they come from the hub."""
    only: Optional[Tuple[str, ...]] = None
    """Weight files that are needed in full, in addition to the present ones; None means all."""


@dataclasses.dataclass(frozen=True)
class WantedFile:
    """A file as the hub describes it."""

    name: str
    size: int
    digest: str
    """``sha256:<hex>``, or ``git:<hex>`` where the hub has only the id that git gives to its content."""


@dataclasses.dataclass(frozen=True)
class Record:
    """The record in the folder of the weights, which avoids hashing them again after a restart."""

    repo: str
    revision: str
    files: Tuple[WantedFile, ...]
    verified: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Modification time, in nanoseconds, at which each file was verified, by name."""
    version: int = 1
    outlines: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Modification time of each weight file's outline, by name."""

    def outlined(self, name: str, size: int, changed_ns: int) -> bool:
        """Return whether a file of this size and modification time is an outline."""
        return self._wanted(name, size) and self.outlines.get(name) == changed_ns

    def holds(self, name: str, size: int, changed_ns: int) -> bool:
        """Return whether a file of this size and modification time was verified."""
        return self._wanted(name, size) and self.verified.get(name) == changed_ns

    def _wanted(self, name: str, size: int) -> bool:
        return any(file.name == name and file.size == size for file in self.files)


@dataclasses.dataclass(frozen=True)
class FileReport:
    """One file, as a thorough verification found it."""

    name: str
    size: int
    state: str
    """Value of ``FileState``."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a fetch: a line of the fetcher's output."""

    phase: str
    done_bytes: int = 0
    total_bytes: int = 0
    rate: float = 0.0
    """Recent bytes per second."""
    file: str = ""
    problem: str = ""
    """Value of ``FetchProblem``, in the phase failed."""
    text: str = ""
    """The problem, for people."""
    files: Tuple[FileReport, ...] = ()
    """Results at the end of a thorough verification."""


FETCHERS_MAX = 4
"""Most fetches at a time on a node: more would only share the same network and disk."""


@dataclasses.dataclass(frozen=True)
class FetchReport:
    """An agent's report of the last fetch of some weights on a node."""

    progress: Progress
    wish: str = ""
    """``FetchWeights.wish`` of the request."""
    attempts: int = 0
    """Fetches that failed in a row without getting further than the one before."""
    ended_seconds: float = 0.0
    """Seconds since it ended without weights, by a monotonic clock of the node; else 0."""
    failure: Optional[Progress] = None
    """The end of the fetch before it, which got no weights, until the running one has got further."""

    @property
    def running(self) -> bool:
        return self.progress.phase not in FetchPhase.ENDED


@dataclasses.dataclass(frozen=True)
class KeptWeights:
    """Weights that were once fetched onto a node, or a part of them."""

    path: str
    """Path as in ``hub_path``."""
    directory: str
    """Absolute."""
    whole: bool
    size: int
    """Bytes that are verified."""
    changed_at: float
    """Time by the node's clock, in seconds since the Unix epoch."""
    stale: bool
    """No controller has asked for them in a while."""


@dataclasses.dataclass(frozen=True)
class RankShare:
    """One rank's share of a model, as the node's runtime splits it."""

    weights_bytes: int
    cache: Optional[Tuple[Tuple[int, int], ...]] = None
    """Cache for one sequence, as pairs of tokens and bytes: the most tokens that count (as with a sliding
    window; 0: all) and the bytes for each. None if the runtime cannot tell."""
    files: Tuple[str, ...] = ()
    """The weight files that it reads; empty where it may be any of them."""


@dataclasses.dataclass(frozen=True)
class FailedExamination:
    """Attempts of a node's runtime to say what it can do with weights, all of which have failed. Times are those of the node's
    clock, in seconds since the Unix epoch."""

    text: str
    """Why the last one failed, for people."""
    attempts: int
    """The number of attempts."""
    since: float
    """End of the first one."""
    again: float
    """Beginning of the next one."""
