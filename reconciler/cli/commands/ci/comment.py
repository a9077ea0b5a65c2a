"""The one comment on a pull request: the results for the change, replaced after each push."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import Invalid, Refused

MARK = "<!-- reconciler: review -->"
"""The line that identifies the comment."""
PARTS = (("Validation", "validation.txt"), ("Plan", "plan.txt"), ("Rehearsal", "rehearsal.md"))
PART_CHARACTERS_MAX = 18_000
"""Most characters of a part: three parts fit into a comment."""
AUTHORS = ("github-actions[bot]", "forgejo-actions", "gitea-actions")
"""Authors of comments that a workflow's own token writes. Comments of other authors are never changed."""


def composed(folder: Path) -> str:
    """Return the comment made of the files in a folder; a part without a file was not reached."""
    parts = ["## Review by reconciler"]
    for title, name in PARTS:
        path = folder / name
        text = path.read_text(errors="replace", encoding="utf-8").strip() if path.is_file() else ""
        if len(text) > PART_CHARACTERS_MAX:
            text = f"{text[:PART_CHARACTERS_MAX]}\n… ({len(text)} characters; the log has all)"
        if not text:
            text = "nothing was found" if path.is_file() else "not reached: see the log of the step before"
        elif path.suffix != ".md":
            text = _fenced(text)
        parts += [f"### {title}", text]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    """Return a text in a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request, from the environment of a workflow's step."""

    api: str
    """URL of the forge's interface, without a slash at its end."""
    repository: str
    number: int
    fork: bool
    """True if the change comes from another repository: the token may then write nothing."""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> PullRequest:
        """Read it from a runner's variables. Raises ``Invalid`` outside of a pull request's workflow."""
        try:
            event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
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


async def put(pull: PullRequest, token: str, text: str) -> None:
    """Write the comment, or replace its text. Raises ``Refused`` and ``Unreachable``."""
    from reconciler.outgoing.forges.client import forge_at

    forge = forge_at(pull.api, pull.repository, token)
    try:
        await forge.comment(pull.number, text, MARK, AUTHORS)
    except Refused as error:
        hint = "; the job needs permissions: {pull-requests: write}" if "403" in str(error) else ""
        raise Refused(error.code, f"{error}{hint}") from None
    finally:
        await forge.close()


def summarized(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Add the comment to the summary that the forge shows of a job; return whether there is one."""
    path = environment.get("GITHUB_STEP_SUMMARY")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    return bool(path)
