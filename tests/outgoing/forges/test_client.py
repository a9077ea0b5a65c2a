"""What is sent to each forge, by its documented interface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from reconciler.errors import Invalid, Refused, Unreachable
from reconciler.outgoing.forges.client import ATTEMPTS_MAX, MARKER, Forge, open_forge
from reconciler.outgoing.forges.interface import INTERFACES, PullRequest, place
from reconciler.resources.git_repository import GitRepositorySpec

from .double import TOKEN, ForgeDouble, forge_double

COMMIT = "1f0c2a9b3d" + "0" * 30


def spec(url: str = "https://git.example.com/team/cluster.git", **forge: Any) -> GitRepositorySpec:
    body = {"url": url, "forge": {"token": {"env": "FORGE_TOKEN"}, **forge}}
    return GitRepositorySpec.model_validate(body)


@pytest.fixture(params=["github", "gitlab", "forgejo", "gitea"])
def double(request: pytest.FixtureRequest) -> Iterator[ForgeDouble]:
    with forge_double(request.param) as made:
        yield made


@pytest.fixture
async def forge(double: ForgeDouble) -> AsyncIterator[Forge]:
    made = open_forge(_at(double), {"FORGE_TOKEN": TOKEN})
    yield replace(made, wait_seconds_max=0.01)
    await made.close()


def _at(double: ForgeDouble) -> GitRepositorySpec:
    body = {
        "url": "https://git.example.com/team/cluster.git",
        "forge": {"type": double.type, "url": double.url, "token": {"env": "FORGE_TOKEN"}},
    }
    return GitRepositorySpec.model_validate(body)


async def test_a_commit_is_shown_with_its_state_and_a_bounded_description(
    forge: Forge, double: ForgeDouble
) -> None:
    await forge.show(COMMIT, "pending", "seen")
    await forge.show(COMMIT, "failure", "a.yaml:1:1: wrong " * 50)
    failed = "failed" if double.type == "gitlab" else "failure"
    assert [each["state"] for each in double.statuses] == ["pending", failed]
    assert {each["commit"] for each in double.statuses} == {COMMIT}
    assert double.statuses[0]["description"] == "seen"
    assert double.statuses[0]["name" if double.type == "gitlab" else "context"] == "reconciler"
    assert len(double.statuses[1]["description"]) == 140


async def test_the_open_pull_requests_against_the_branch_with_those_from_forks_marked(
    forge: Forge, double: ForgeDouble
) -> None:
    double.open_request(1, COMMIT, "more")
    double.open_request(2, COMMIT, "evil", fork=True)
    double.open_request(3, COMMIT, "other", against="release")
    assert await forge.open("main") == (
        PullRequest(1, COMMIT, "more", False),
        PullRequest(2, COMMIT, "evil", True),
    )


async def test_one_comment_is_written_and_then_changed_in_place(forge: Forge, double: ForgeDouble) -> None:
    double.comments[7] = [{"id": number, "body": "of somebody"} for number in range(60)]
    await forge.comment(7, "first")
    await forge.comment(7, "second")
    writes = len([call for call in double.calls if not call.startswith("GET")])
    await forge.comment(7, "second")
    assert len([call for call in double.calls if not call.startswith("GET")]) == writes
    ours = [each["body"] for each in double.comments[7] if each["body"].startswith(MARKER)]
    assert ours == [f"{MARKER}\nsecond"]
    assert len(double.comments[7]) == 61


async def test_a_forge_that_fails_is_asked_a_few_times_and_given_up(
    forge: Forge, double: ForgeDouble
) -> None:
    double.failing = [503, 429]
    await forge.show(COMMIT, "pending", "seen")
    assert len(double.calls) == 3
    double.failing = [503] * 20
    with pytest.raises(Unreachable, match="it answered with 503"):
        await forge.show(COMMIT, "success", "ready")
    assert len(double.calls) == 3 + ATTEMPTS_MAX


@pytest.mark.parametrize(
    "fault",
    [
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.ReadTimeout,
        httpx2.ReadError,
        httpx2.RemoteProtocolError,
    ],
)
async def test_a_connection_that_breaks_once_is_tried_again_and_one_that_always_breaks_is_given_up(
    fault: type[httpx2.TransportError],
) -> None:
    asked: list[str] = []
    broken = 1

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        if len(asked) <= broken:
            raise fault("it broke")
        return httpx2.Response(201, json={})

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    forge = Forge(INTERFACES["github"], "https://forge", "team/cluster", client, wait_seconds_max=0.01)
    await forge.show(COMMIT, "pending", "seen")
    assert len(asked) == 2
    broken = len(asked) + 20
    with pytest.raises(Unreachable, match=fault.__name__):
        await forge.show(COMMIT, "success", "ready")
    assert len(asked) == 2 + ATTEMPTS_MAX
    await forge.close()


async def test_a_refusal_is_not_tried_again_and_holds_no_token(double: ForgeDouble) -> None:
    wrong = open_forge(_at(double), {"FORGE_TOKEN": "wr0ng-t0ken"})
    with pytest.raises(Refused, match="answered with 401: Bad credentials") as told:
        await wrong.show(COMMIT, "pending", "seen")
    assert "wr0ng" not in str(told.value)
    assert len(double.calls) == 1
    await wrong.close()


async def test_a_redirect_is_not_followed(forge: Forge, double: ForgeDouble) -> None:
    double.failing = [302]
    with pytest.raises(Refused, match="answered with 302"):
        await forge.show(COMMIT, "pending", "seen")


async def test_gitlab_says_that_it_is_in_that_state_already() -> None:
    with forge_double("gitlab") as double:
        made = open_forge(_at(double), {"FORGE_TOKEN": TOKEN})
        double.failing, double.saying = [400], "Cannot transition status via :enqueue from :pending"
        await made.show(COMMIT, "pending", "seen")
        await made.close()


@pytest.mark.parametrize(
    ("url", "type", "base", "project"),
    [
        ("https://github.com/team/cluster.git", "github", "https://api.github.com", "team/cluster"),
        ("https://ghe.example.com/team/cluster", "github", "https://ghe.example.com/api/v3", "team/cluster"),
        ("https://gitlab.com/a/b/c.git", "gitlab", "https://gitlab.com/api/v4", "a%2Fb%2Fc"),
        ("https://codeberg.org/team/cluster.git", "forgejo", "https://codeberg.org/api/v1", "team/cluster"),
    ],
)
def test_the_interface_follows_from_the_remote(url: str, type: str, base: str, project: str) -> None:
    assert place(spec(url, type=type))[1:] == (base, project)


def test_of_a_folder_the_forge_is_not_known() -> None:
    with pytest.raises(Invalid, match="--forge-url"):
        place(spec("/srv/cluster.git", type="forgejo"))
    with pytest.raises(Invalid, match="has no FORGE_TOKEN"):
        open_forge(spec(type="forgejo"), {})
