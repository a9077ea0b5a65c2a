"""Fetches weights until they are complete and verified, file by file.

The weights are assembled in a folder next to the final one, which appears by one rename. So visible weights are always
complete and verified.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from reconciler.wire.weights import (
    SPARE_BYTES,
    FetchJob,
    FetchPhase,
    FetchProblem,
    FileReport,
    FileState,
    Record,
    WantedFile,
    is_shard,
    partial_folder,
)

from .folder import Folder, is_right, sync
from .hub import Repository
from .peer import Peer
from .problems import Unfetched, of_disk, size_in_words
from .progress import ProgressReport

ATTEMPTS_MAX = 3
"""Most downloads of a file whose content is wrong or that stops arriving."""
TRY_SECONDS = 1.0
LOCK_SECONDS = 20.0
"""A killed fetcher is gone within this time."""


def fetch(job: FetchJob, report: ProgressReport) -> tuple[FileReport, ...]:
    """Fetch the weights of ``job``. Raises ``Unfetched``; fetched parts stay for the next fetch.

    With ``job.thorough``, reports the result for each file.
    """
    try:
        folder = Path(job.folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder), closing(_Fetch(job, folder, report)) as bringing:
            return bringing.run()
    except OSError as error:
        raise of_disk(error) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Allow one fetcher at a time for the same weights."""
    with folder.with_name(f".{folder.name}.lock").open("a") as lock:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    text = "another fetcher is working there"
                    raise Unfetched(FetchProblem.INTERRUPTED, text) from None
                time.sleep(0.1)
        yield


class _Fetch:
    def __init__(self, job: FetchJob, folder: Path, report: ProgressReport) -> None:
        self._job = job
        self._final = folder
        self._partial = partial_folder(folder)
        self._report = report
        self._repository = Peer(job.source, job.listen) if job.listen else Repository(job.source)
        self._found: dict[str, str] = {}
        """Results of a thorough verification, by file name."""
        self._held: set[str] = set()
        """Files that are, or were, completely present."""

    def close(self) -> None:
        self._repository.close()

    def run(self) -> tuple[FileReport, ...]:
        folder = self._resumable()
        record = folder.record
        if record is None or self._lacks_code(record):
            record = self._listed(folder)
        self._held |= record.verified.keys()
        try:
            self._complete(folder, record)
        except Unfetched as error:
            error.files = self._reports(record)
            raise
        if folder.path == self._partial:
            self._appear(folder)
        return self._reports(record)

    def _resumable(self) -> Folder:
        """Return the folder to continue in: the final one if all of it is correct, because it may be in use."""
        if self._final.exists():
            folder = Folder(self._final)
            if folder.record is not None:
                self._held |= folder.record.verified.keys()
                if self._verify_folder(folder):
                    return folder
            self._reopen()
        return Folder(self._partial)

    def _complete(self, folder: Folder, record: Record) -> None:
        for wanted in record.files:
            if not (self._in_full(wanted) or folder.is_outline(wanted) or folder.is_verified(wanted)):
                folder.outline(wanted, self._repository.outline(wanted))
        self._check_room(folder, record)
        for wanted in self._missing(folder, record):
            self._bring(folder, record, wanted)

    def _in_full(self, wanted: WantedFile) -> bool:
        """Return whether a file is needed with its full content."""
        only, name = self._job.only, wanted.name
        return only is None or not is_shard(name) or name in only or name in self._held

    def _lacks_code(self, record: Record) -> bool:
        """Return whether the files were listed when no code was wanted."""
        return self._job.source.code and not any(file.name.endswith(".py") for file in record.files)

    def _listed(self, folder: Folder) -> Record:
        source = self._job.source
        before = folder.record.verified if folder.record else {}
        record = Record(source.repo, source.revision, self._repository.files(), before)
        folder.keep(record)
        return record

    def _verify_folder(self, folder: Folder) -> bool:
        """Return whether a complete folder is still correct; wrong files are noted."""
        record = folder.record
        assert record is not None
        parts = [f for f in record.files if not folder.is_outline(f)]
        doubted = [f for f in parts if self._job.thorough or not folder.is_verified(f)]
        total = sum(file.size for file in doubted)
        self._report.begin(FetchPhase.VERIFYING, total)
        for wanted in doubted:
            path = folder.path / wanted.name
            if not path.exists():
                self._found[wanted.name] = FileState.MISSING
            elif not is_right(path, wanted, self._report.add):
                self._found[wanted.name] = FileState.DAMAGED
            elif not folder.is_verified(wanted):
                folder.note_verified(wanted)
        return not self._found

    def _reopen(self) -> None:
        """Hide a folder with wrong files; its correct files stay."""
        if self._partial.exists():
            shutil.rmtree(self._partial)
        self._final.rename(self._partial)
        taken = Folder(self._partial)
        for wanted in taken.record.files if taken.record else ():
            if wanted.name in self._found:
                taken.discard(wanted)

    def _check_room(self, folder: Folder, record: Record) -> None:
        coming = [f for f in record.files if self._in_full(f) and not folder.is_verified(f)]
        needed = sum(
            file.size - max(_size(folder.part(file)), self._unverified_bytes(folder, file)) for file in coming
        )
        total = sum(file.size for file in record.files if self._in_full(file))
        self._report.begin(FetchPhase.FETCHING, total, total - needed)
        free = shutil.disk_usage(folder.path).free
        if needed > 0 and needed + SPARE_BYTES > free:
            raise Unfetched(
                FetchProblem.DISK_FULL,
                f"{size_in_words(needed)} are still to be fetched, and {size_in_words(SPARE_BYTES)} must stay free;"
                f" the disk of {self._final.parent.parent} has {size_in_words(free)}",
            )

    def _missing(self, folder: Folder, record: Record) -> list[WantedFile]:
        """Return the files that are missing; present but unverified files are checked."""
        missing = []
        for wanted in record.files:
            if folder.is_verified(wanted) or not self._in_full(wanted):
                continue
            path = folder.path / wanted.name
            if folder.is_outline(wanted):  # stays until the file is there: a rank may have it open
                missing.append(wanted)
            elif path.exists() and is_right(path, wanted, lambda size: None):
                folder.note_verified(wanted)
            else:
                path.unlink(missing_ok=True)
                missing.append(wanted)
        return missing

    def _bring(self, folder: Folder, record: Record, wanted: WantedFile) -> None:
        part = folder.part(wanted)
        coming = [file for file in record.files if self._in_full(file)]
        total = sum(file.size for file in coming)
        problem: Unfetched | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(TRY_SECONDS)
            done = sum(file.size for file in coming if folder.is_verified(file))
            self._report.begin(FetchPhase.FETCHING, total, done + _size(part), wanted.name)
            try:
                self._repository.download(wanted, part, self._report.add)
            except Unfetched as error:
                if error.problem != FetchProblem.TRUNCATED:
                    raise
                problem = error
                continue
            if is_right(part, wanted, lambda size: None):
                folder.accept(wanted)
                if wanted.name in self._found:
                    self._found[wanted.name] = FileState.FETCHED
                return
            part.unlink()
            text = f"{wanted.name} was fetched {attempt + 1} times and never matched the hub's digest ({wanted.digest[:17]}…)"
            problem = Unfetched(FetchProblem.CORRUPTED, text)
        assert problem is not None
        raise problem

    def _appear(self, folder: Folder) -> None:
        """Make the complete and verified weights visible."""
        assert folder.record is not None
        assert all(folder.is_verified(file) or folder.is_outline(file) for file in folder.record.files)
        for path in folder.path.iterdir():
            if path.name.endswith(".part"):
                path.unlink()
        sync(folder.path)
        folder.path.rename(self._final)
        sync(self._final.parent)

    def _reports(self, record: Record) -> tuple[FileReport, ...]:
        if not self._job.thorough:
            return ()
        return tuple(
            FileReport(file.name, file.size, self._found.get(file.name, self._state(file)))
            for file in sorted(record.files, key=lambda file: file.name)
        )

    def _state(self, wanted: WantedFile) -> str:
        return FileState.VERIFIED if self._in_full(wanted) else FileState.OUTLINED

    @staticmethod
    def _unverified_bytes(folder: Folder, wanted: WantedFile) -> int:
        """Return the unverified bytes of a file under its own name."""
        return 0 if folder.is_outline(wanted) else _size(folder.path / wanted.name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
