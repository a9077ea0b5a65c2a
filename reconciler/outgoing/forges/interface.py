"""The used parts of the interfaces of forges: the requests and their answers. Pure.

Sources: docs.github.com/rest (commit statuses, pulls, issue comments); docs.gitlab.com/api (commits, merge requests, notes);
the OpenAPI description that each Forgejo and Gitea serves at /swagger.v1.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from reconciler.errors import Invalid
from reconciler.resources.git_repository import Forge, GitRepositorySpec, host_and_project

State = Literal["pending", "success", "failure"]
CONTEXT = "reconciler"
"""The name under which the status is shown."""
DESCRIPTION_CHARACTERS_MAX = 140
"""GitHub's limit, which is the smallest."""
PAGE = 50


@dataclass(frozen=True, slots=True)
class Call:
    """A request: ``path`` comes after the base URL."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PullRequest:
    """An open pull request against the branch."""

    number: int
    commit: str
    branch: str
    """The branch to be merged."""
    fork: bool
    """True if the branch is in another repository."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The differences between forges. ``project`` is the repository, as the forge writes it in paths."""

    base: Callable[[str], str]
    """From the host of the remote to the base URL."""
    headers: Callable[[str], Mapping[str, str]]
    """From the token to the headers of each request."""
    project: Callable[[str], str]
    status: Callable[[str, str, State, str], Call]
    """From project, commit, state and description."""
    open: Callable[[str, str, int], Call]
    """The open pull requests: from project, branch and page, which counts from 1."""
    pull_request: Callable[[Mapping[str, Any]], tuple[PullRequest, str]]
    """From an item of the open pull requests to a pull request and its target branch."""
    comments: Callable[[str, int, int], Call]
    """From project, number and page."""
    add: Callable[[str, int, str], Call]
    change: Callable[[str, int, int, str], Call]
    """From project, number of the pull request, id of the comment, and text."""


def _github_status(project: str, commit: str, state: State, text: str) -> Call:
    return Call(
        "POST",
        f"/repos/{project}/statuses/{commit}",
        {"state": state, "context": CONTEXT, "description": text},
    )


def _github_pull_request(item: Mapping[str, Any]) -> tuple[PullRequest, str]:
    head, base = item["head"], item["base"]
    home = head.get("repo") or {}  # None where the fork was deleted
    fork = home.get("full_name") != base["repo"]["full_name"]
    return PullRequest(int(item["number"]), str(head["sha"]), str(head["ref"]), fork), str(base["ref"])


def _gitlab_pull_request(item: Mapping[str, Any]) -> tuple[PullRequest, str]:
    fork = item["source_project_id"] != item["target_project_id"]
    found = PullRequest(int(item["iid"]), str(item["sha"]), str(item["source_branch"]), fork)
    return found, str(item["target_branch"])


_GITLAB_STATES = {"pending": "pending", "success": "success", "failure": "failed"}


def _gitlab_status(project: str, commit: str, state: State, text: str) -> Call:
    body = {"state": _GITLAB_STATES[state], "name": CONTEXT, "description": text}
    return Call("POST", f"/projects/{project}/statuses/{commit}", body)


def _like_github(
    base: Callable[[str], str], headers: Callable[[str], Mapping[str, str]], limit: str
) -> Interface:
    return Interface(
        base=base,
        headers=headers,
        project=lambda project: quote(project, safe="/"),
        status=_github_status,
        open=lambda project, branch, page: Call(
            "GET",
            f"/repos/{project}/pulls?state=open&base={quote(branch, safe='')}&{limit}={PAGE}&page={page}",
        ),
        pull_request=_github_pull_request,
        comments=lambda project, number, page: Call(
            "GET", f"/repos/{project}/issues/{number}/comments?{limit}={PAGE}&page={page}"
        ),
        add=lambda project, number, text: Call(
            "POST", f"/repos/{project}/issues/{number}/comments", {"body": text}
        ),
        change=lambda project, number, id, text: Call(
            "PATCH", f"/repos/{project}/issues/comments/{id}", {"body": text}
        ),
    )


_GITHUB = _like_github(
    lambda host: "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3",
    lambda token: {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    },
    "per_page",
)
_FORGEJO = _like_github(
    lambda host: f"https://{host}/api/v1",
    lambda token: {"Authorization": f"token {token}", "Accept": "application/json"},
    "limit",
)
_GITLAB = Interface(
    base=lambda host: f"https://{host}/api/v4",
    headers=lambda token: {"PRIVATE-TOKEN": token, "Accept": "application/json"},
    project=lambda project: quote(project, safe=""),
    status=_gitlab_status,
    open=lambda project, branch, page: Call(
        "GET",
        f"/projects/{project}/merge_requests?state=opened&target_branch={quote(branch, safe='')}"
        f"&per_page={PAGE}&page={page}",
    ),
    pull_request=_gitlab_pull_request,
    comments=lambda project, number, page: Call(
        "GET", f"/projects/{project}/merge_requests/{number}/notes?sort=asc&per_page={PAGE}&page={page}"
    ),
    add=lambda project, number, text: Call(
        "POST", f"/projects/{project}/merge_requests/{number}/notes", {"body": text}
    ),
    change=lambda project, number, id, text: Call(
        "PUT", f"/projects/{project}/merge_requests/{number}/notes/{id}", {"body": text}
    ),
)
INTERFACES: Mapping[Forge, Interface] = {
    "github": _GITHUB,
    "gitlab": _GITLAB,
    "forgejo": _FORGEJO,
    "gitea": _FORGEJO,
}


def place(spec: GitRepositorySpec) -> tuple[Interface, str, str]:
    """Return the interface, its base URL and the project in paths. Raises ``Invalid`` if these are not known."""
    assert spec.forge is not None
    host, path = host_and_project(spec.url)
    interface, project = INTERFACES[spec.forge.type], spec.forge.project or path
    if spec.forge.url is None and not host:
        raise Invalid(
            "the forge is not known: name its interface with --forge-url, and the repository with --forge-project"
        )
    base = spec.forge.url or interface.base(host)
    return interface, base.rstrip("/"), interface.project(project)
