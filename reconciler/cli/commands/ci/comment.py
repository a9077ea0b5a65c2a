"""The one comment of a pull request: what was found out about the change, written anew after each push."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.errors import Invalid, Unreachable

MARK = "<!-- reconciler: review -->"
"""By this line the comment is found again."""
PARTS = (("Validation", "validation.txt"), ("Plan", "plan.txt"), ("Rehearsal", "rehearsal.md"))
PART_CHARACTERS_MAX = 18_000
"""Three of them fit the 65,536 characters that a forge allows to a comment."""
AUTHORS = ("github-actions[bot]", "forgejo-actions", "gitea-actions")
"""Who comments with a workflow's own token. A comment of anybody else is never changed."""
PAGES_MAX = 20
ANSWER_SECONDS = 30.0
BYTES_MAX = 8 * 2**20


def composed(folder: Path) -> str:
    """Return the comment that the files in a folder make; a part without a file was not reached."""
    parts = [MARK, "## Review by reconciler"]
    for title, name in PARTS:
        path = folder / name
        text = path.read_text(errors="replace").strip() if path.is_file() else ""
        if len(text) > PART_CHARACTERS_MAX:
            text = f"{text[:PART_CHARACTERS_MAX]}\n… ({len(text)} characters; the log has all)"
        if not text:
            text = "nothing was found" if path.is_file() else "not reached: see the log of the step before"
        elif path.suffix != ".md":
            text = _fenced(text)
        parts += [f"### {title}", text]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """Write a text as it is, whatever marks are in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, as the environment of a workflow's step names it."""

    api: str
    """URL of the forge's interface, without a slash at its end."""
    repository: str
    number: int
    fork: bool
    """Whether the change comes from another repository: then the token may write nothing."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> PullRequest:
        """Read it from what a runner sets. Raises ``Invalid`` outside of a workflow of a pull request."""
        try:
            event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text())
            repository = environment["GITHUB_REPOSITORY"]
            pull = event["pull_request"]
            head = (pull["head"].get("repo") or {}).get("full_name")
            api = environment["GITHUB_API_URL"].rstrip("/")
            return cls(api, repository, int(pull["number"]), head != repository)
        except (KeyError, OSError, TypeError, ValueError) as error:
            raise Invalid(
                f"this is no step of a pull request's workflow ({type(error).__name__}: {error});"
                " the comment alone is printed with: reconciler ci comment DIR --print"
            ) from None


@dataclass(frozen=True, slots=True)
class Comments:
    """The comments of a pull request, by the interface that GitHub, Forgejo and Gitea have in common."""

    pull: PullRequest
    token: str

    def put(self, text: str) -> str:
        """Write the comment, or write it anew; return its address. Raises ``Unreachable``."""
        issues = f"{self.pull.api}/repos/{self.pull.repository}/issues"
        for comment in self._pages(f"{issues}/{self.pull.number}/comments"):
            ours = (comment.get("user") or {}).get("login") in AUTHORS
            if ours and str(comment.get("body", "")).startswith(MARK):
                answer = self._call("PATCH", f"{issues}/comments/{int(comment['id'])}", {"body": text})
                return str(answer.get("html_url", ""))
        answer = self._call("POST", f"{issues}/{self.pull.number}/comments", {"body": text})
        return str(answer.get("html_url", ""))

    def _pages(self, url: str) -> Iterator[dict[str, Any]]:
        seen: set[int] = set()
        for page in range(1, PAGES_MAX + 1):
            items = self._call("GET", f"{url}?per_page=50&limit=50&page={page}")
            new = [each for each in items if each["id"] not in seen]
            if not new:  # the last page, or a forge that has no pages of comments
                return
            seen |= {each["id"] for each in new}
            yield from new

    def _call(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return json.loads(answer.read(BYTES_MAX))
        except urllib.error.HTTPError as error:
            error.close()
            hint = "; the job needs permissions: {pull-requests: write}" if error.code == 403 else ""
            raise Unreachable(f"{method} {url}: HTTP {error.code}{hint}") from None
        except (OSError, ValueError) as error:
            raise Unreachable(f"{method} {url}: {error}") from None


def summarized(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Add the comment to the summary that the forge shows of a job; return whether there is one."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a") as file:
            file.write(text)
    return bool(path)
