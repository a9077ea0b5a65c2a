"""Sends requests to a forge. Each is tried a few times and then given up, so that an unreachable forge costs no
more."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from reconciler.errors import Refused, Unreachable
from reconciler.resources.git_repository import GitRepositorySpec
from reconciler.secret_files import find_secret

from .interface import (
    DESCRIPTION_CHARACTERS_MAX,
    INTERFACES,
    PAGE,
    Call,
    Interface,
    PullRequest,
    State,
    place,
)

REQUEST_SECONDS_MAX = 10.0
ATTEMPTS_MAX = 4
RETRY_SECONDS_MAX = 8.0
PAGES_MAX = 5
ANSWER_BYTES_MAX = 4 * 1024 * 1024
COMMENT_CHARACTERS_MAX = 60_000
"""GitHub takes 65,536."""
MARKER = "<!-- reconciler: the plan of this change -->"
"""The mark of the one comment of a pull request, by which it is found again."""


class _Busy(Unreachable):
    """The forge asks for patience, or has failed."""


@dataclass(frozen=True, slots=True)
class Forge:
    """A repository at a forge."""

    interface: Interface
    base: str
    project: str
    client: httpx2.AsyncClient
    wait_seconds_max: float = RETRY_SECONDS_MAX

    async def show(self, commit: str, state: State, text: str) -> None:
        """Show the outcome of a commit. Raises ``Refused`` and ``Unreachable``."""
        described = clipped(text, DESCRIPTION_CHARACTERS_MAX)
        try:
            await self._call(self.interface.status(self.project, commit, state, described))
        except Refused as error:
            if "Cannot transition status" not in str(error):  # GitLab: it is in that state already
                raise

    async def open(self, branch: str) -> tuple[PullRequest, ...]:
        """Return the open pull requests against a branch, at most ``PAGES_MAX`` pages of them."""
        found = []
        async for item in self._items(lambda page: self.interface.open(self.project, branch, page)):
            pull_request, against = self.interface.pull_request(item)
            if against == branch:
                found.append(pull_request)
        return tuple(found)

    async def comment(
        self, number: int, text: str, marker: str = MARKER, authors: Collection[str] = ()
    ) -> None:
        """Write the one comment of a pull request, or change it if its text differs.

        ``marker``: its first line. ``authors``: logins of the users whose comments count; empty for all users.
        """
        body = f"{marker}\n{clipped(text, COMMENT_CHARACTERS_MAX)}"
        async for item in self._items(lambda page: self.interface.comments(self.project, number, page)):
            known = not authors or (item.get("user") or {}).get("login") in authors
            if known and str(item["body"]).startswith(marker):
                if str(item["body"]).strip() != body.strip():
                    await self._call(self.interface.change(self.project, number, int(item["id"]), body))
                return
        await self._call(self.interface.add(self.project, number, body))

    async def close(self) -> None:
        await self.client.aclose()

    async def _items(self, call: Callable[[int], Call]) -> AsyncIterator[Mapping[str, Any]]:
        for page in range(1, PAGES_MAX + 1):
            items = await self._call(call(page))
            if not isinstance(items, list):
                raise Refused("Unexpected", f"{self.base} does not answer as this forge would")
            for item in items:
                yield item
            if len(items) < PAGE:
                return

    async def _call(self, call: Call) -> Any:
        """Return the answer. Raises ``Refused`` for an answer that another attempt does not change, and
        ``Unreachable``."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS_MAX),
            wait=wait_random_exponential(multiplier=0.5, max=self.wait_seconds_max),
            retry=retry_if_exception_type((Unreachable,)),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                return await self._once(call)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, call: Call) -> Any:
        where = f"{call.method} {self.base}{call.path.partition('?')[0]}"
        try:
            async with self.client.stream(call.method, f"{self.base}{call.path}", json=call.body) as answer:
                content = bytearray()
                async for chunk in answer.aiter_bytes():
                    content += chunk
                    if len(content) > ANSWER_BYTES_MAX:
                        raise Refused(
                            "TooLarge", f"{where}: the answer has more than {ANSWER_BYTES_MAX} bytes"
                        )
        except httpx2.HTTPError as error:
            raise Unreachable(f"{where}: {type(error).__name__}") from None
        if answer.status_code == 429 or answer.status_code >= 500:
            raise _Busy(f"{where}: it answered with {answer.status_code}")
        if not answer.is_success:
            raise Refused("NotTaken", f"{where}: it answered with {answer.status_code}: {_said(content)}")
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise Refused("Unexpected", f"{where}: it does not answer in JSON") from None


def open_forge(spec: GitRepositorySpec, environ: Mapping[str, str]) -> Forge:
    """Return the forge of a remote. Raises ``Invalid`` if it, or its token, is not known."""
    assert spec.forge is not None
    interface, base, project = place(spec)
    ca_file = str(Path(spec.ca_file).expanduser()) if spec.ca_file else None
    return Forge(
        interface,
        base,
        project,
        _client(interface, find_secret(spec.forge.token.file, spec.forge.token.env, environ), ca_file),
    )


def forge_at(base: str, repository: str, token: str) -> Forge:
    """Return a repository at the forge whose interface is at ``base``: GitHub's, or with ``/api/v1`` Forgejo's or
    Gitea's."""
    interface = INTERFACES["forgejo" if base.rstrip("/").endswith("/api/v1") else "github"]
    return Forge(interface, base.rstrip("/"), interface.project(repository), _client(interface, token))


def _client(interface: Interface, token: str, ca_file: str | None = None) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        headers={**interface.headers(token), "User-Agent": "reconciler"},
        timeout=REQUEST_SECONDS_MAX,
        follow_redirects=False,
        verify=ssl.create_default_context(cafile=ca_file),
    )


def clipped(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _said(content: bytes | bytearray) -> str:
    """Return the forge's own reason, if it has one."""
    try:
        said = json.loads(content)
    except ValueError:
        return "no reason"
    found = said.get("message") or said.get("error") if isinstance(said, dict) else None
    return clipped(" ".join(str(found or "no reason").split()), 200)
