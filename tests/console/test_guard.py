"""The console answers to its own names and pages alone."""

from __future__ import annotations

import socket

import pytest
from starlette.testclient import TestClient

from reconciler.console.pages import PAGES, Page
from reconciler.console.snapshot import Snapshot

from .doors import client_of, doors_of


@pytest.fixture
def client() -> TestClient:
    return client_of(doors_of(Snapshot()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.title)
def test_every_page_forbids_scripts_of_others_and_requests_to_others(client: TestClient, page: Page) -> None:
    answer = client.get(page.path.replace("{name}", "tiny"))
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8480"},
        {"host": "host.docker.internal.evil.example"},
        {"host": "evil.local"},
        {"host": "10.0.0.1:8480"},
        {"host": ""},
        {"host": "["},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_other_sites_and_other_names_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/", headers=headers).status_code == 403


NAME = socket.gethostname().partition(".")[0]


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8480",
        "LOCALHOST.:8480",
        "app.localhost",
        "[::1]:8480",
        "127.0.0.1:8480",
        "127.8.9.1",
        "host.docker.internal:8480",
        "host.containers.internal:8480",
        f"{NAME}.local:8480",
        f"{NAME.upper()}:8480",
    ],
)
def test_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


def test_a_link_from_another_site_opens_the_console(client: TestClient) -> None:
    followed = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=followed).status_code == 200
