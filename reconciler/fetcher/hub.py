"""A repository on the hub, over the real client: the wanted files, and their bytes.

``hf_hub_download`` of huggingface_hub 2 begins a file again after its process was killed, because each process names
its partial file differently. ``http_get``, which it calls, continues at the end of a file.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2
from huggingface_hub import HfApi, constants, errors, hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import get_session, hf_raise_for_status

from reconciler.wire.weights import TOKEN_VARIABLE, FetchProblem, FetchSource, WantedFile

from .problems import Unfetched, of_disk
from .weight_header import header

SERVED = ("*.json", "model*.safetensors", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""Files that mlx-lm and transformers read: configurations, weights, chat templates, vocabularies."""
UNSERVED = ("README*", "LICENSE*", "*.md", "training_args*", "trainer_state*", "optimizer*")
CODE = ("*.py",)
ANSWER_SECONDS = 30.0
constants.DOWNLOAD_CHUNK_SIZE = 256 * 1024
"""``http_get`` loses an incomplete piece when the connection breaks: with the client's own 10 MB, a fetch over a bad
line would never make progress."""
_BROKEN = (httpx2.TransportError, httpx2.StreamError, errors.OfflineModeIsEnabled)
_UNCONNECTED = (httpx2.ConnectError, httpx2.ConnectTimeout)


class _Counter(AbstractContextManager["_Counter"]):
    """A progress bar for ``http_get``, with the methods of ``tqdm`` that it uses."""

    more: Callable[[int], None]

    def __init__(self, **_: Any) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return

    def update(self, size: float | None = 1) -> None:
        self.more(int(size or 0))

    def close(self) -> None:
        return


class Repository:
    """One commit of a repository. Everything raises ``Unfetched``."""

    def __init__(self, source: FetchSource) -> None:
        self._source = source
        self._endpoint = source.endpoint or None
        # False, because with None the client would look for a token that somebody else has left on the machine.
        self._token = os.environ.get(TOKEN_VARIABLE) or False

    def close(self) -> None:
        """Do nothing."""

    def files(self) -> tuple[WantedFile, ...]:
        """Return the files that serving needs, small ones first, so that problems with them show early."""
        api = HfApi(endpoint=self._endpoint, token=self._token)
        source = self._source
        try:
            info = api.model_info(
                source.repo, revision=source.revision, files_metadata=True, timeout=ANSWER_SECONDS
            )
        except (OSError, *_BROKEN) as error:
            raise self._problem(error) from None
        patterns = SERVED + (CODE if source.code else ())
        wanted = [
            _wanted(file)
            for file in info.siblings or ()
            if _matches(file.rfilename, patterns) and not _matches(file.rfilename, UNSERVED)
        ]
        self._check(wanted)
        return tuple(sorted(wanted, key=lambda file: (file.size, file.name)))

    def _check(self, wanted: list[WantedFile]) -> None:
        for pattern in ("config.json", "model*.safetensors"):
            if not any(fnmatch.fnmatchcase(file.name, pattern) for file in wanted):
                raise Unfetched(
                    FetchProblem.NOT_SERVABLE,
                    f"{self._source.repo} has no {pattern} at {self._source.revision[:10]}: "
                    "expected weights in the layout of MLX and Hugging Face",
                )

    def download(self, wanted: WantedFile, part: Path, more: Callable[[int], None]) -> None:
        """Download the missing part of a file."""
        source = self._source
        url = hf_hub_url(source.repo, wanted.name, revision=source.revision, endpoint=self._endpoint)
        counter = type("_Counting", (_Counter,), {"more": staticmethod(more)})
        try:
            with part.open("ab") as file:
                there = file.tell()
                if there > wanted.size:
                    file.truncate(0)
                    there = 0
                http_get(
                    url,
                    file,
                    resume_size=there,
                    headers={**build_hf_headers(token=self._token), "Accept-Encoding": "identity"},
                    expected_size=wanted.size,
                    displayed_filename=wanted.name,
                    tqdm_class=counter,
                )
        except (OSError, ValueError, *_BROKEN) as error:
            raise self._problem(error, wanted) from None

    def outline(self, wanted: WantedFile) -> bytes:
        """Return the start of a weight file, up to its tensors."""
        return header(wanted, lambda offset, length: self._read(wanted, offset, length))

    def _read(self, wanted: WantedFile, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of a file and read no more, whether the server supports ranges or not."""
        source = self._source
        url = hf_hub_url(source.repo, wanted.name, revision=source.revision, endpoint=self._endpoint)
        headers = {**build_hf_headers(token=self._token), "Accept-Encoding": "identity"}
        headers["Range"] = f"bytes={offset}-{offset + length - 1}"
        found = bytearray()
        try:
            with get_session().stream("GET", url, headers=headers, timeout=ANSWER_SECONDS) as response:
                hf_raise_for_status(response)
                skipped = offset if response.status_code == 200 else 0
                for piece in response.iter_bytes():
                    found += piece
                    if len(found) >= skipped + length:
                        break
        except (OSError, ValueError, *_BROKEN) as error:
            raise self._problem(error, wanted) from None
        return bytes(found[skipped : skipped + length])

    def _problem(self, error: Exception, wanted: WantedFile | None = None) -> Unfetched:
        """Return the problem for an error of the client. Its own text may contain signed URLs, which are secret."""
        what = f"{wanted.name} of {self._source.repo}" if wanted else self._source.repo
        if isinstance(error, errors.HfHubHTTPError):
            return self._answered(error, what)
        if isinstance(error, _UNCONNECTED):
            return Unfetched(FetchProblem.UNREACHABLE, f"no connection to {self._endpoint_name()}")
        if isinstance(error, _BROKEN):
            text = f"the connection broke while fetching {what} ({type(error).__name__})"
            return Unfetched(FetchProblem.INTERRUPTED, text)
        if isinstance(error, OSError) and error.errno is not None:
            return of_disk(error)
        if isinstance(error, ValueError):
            return Unfetched(FetchProblem.FAILED, f"{what}: {str(error).splitlines()[0][:200]}")
        return Unfetched(FetchProblem.TRUNCATED, f"{what} ended before its last byte")

    def _answered(self, error: errors.HfHubHTTPError, what: str) -> Unfetched:
        status = error.response.status_code
        source, given = self._source, "the token was not accepted" if self._token else "no token was given"
        if status == 403 or isinstance(error, errors.GatedRepoError):
            return Unfetched(
                FetchProblem.FORBIDDEN,
                f"{self._endpoint_name()} denies {what} to this token; accept the terms of {source.repo} there"
                " with the token's account, and check that the token may read it",
            )
        if status == 401:
            text = f"{self._endpoint_name()} requires a valid token for {what}: {given}"
            return Unfetched(FetchProblem.UNAUTHORIZED, text)
        if status == 404:
            unknown = isinstance(error, errors.RevisionNotFoundError)
            missing = f"no commit {source.revision[:10]} in" if unknown else "no"
            text = f"{self._endpoint_name()} has {missing} {what}, or shows it only with a permitted token"
            return Unfetched(FetchProblem.NOT_FOUND, text)
        if status == 416:  # the wanted part begins where the hub's file ends
            return Unfetched(FetchProblem.TRUNCATED, f"{what} ended before its last byte")
        if status >= 500 or status in (408, 429):
            return Unfetched(FetchProblem.UNREACHABLE, f"{self._endpoint_name()} answers {status} for {what}")
        return Unfetched(FetchProblem.FAILED, f"{self._endpoint_name()} answers {status} for {what}")

    def _endpoint_name(self) -> str:
        return self._endpoint or "huggingface.co"


def _wanted(file: RepoSibling) -> WantedFile:
    if file.lfs is not None:
        return WantedFile(file.rfilename, file.lfs.size, f"sha256:{file.lfs.sha256}")
    return WantedFile(file.rfilename, file.size or 0, f"git:{file.blob_id}")


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a file matches; only files in the top folder do."""
    return "/" not in name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
