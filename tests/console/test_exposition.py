"""Prometheus gets the cluster's own metrics at the address whose page browsers get, with a key where keys are on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from reconciler.console.access.door import Doors
from reconciler.console.exposition import UP, written
from reconciler.errors import Unreachable
from reconciler.wire.admin import ShowSeries
from reconciler.wire.answers import MetricFamilies

from .doors import client_of, doors_of, key, secret, with_keys
from .snapshots import recorded

PROMETHEUS = {
    "accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
}
"""What version 2.42 sends, with `Host` and no cookie."""
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
BODY: MetricFamilies = {
    "families": [
        {"name": "reconciler_revision_held", "text": "Held.", "labels": [], "series": [([], 1.0)]},
        {
            "name": "reconciler_node_lost",
            "text": 'A text with \\, " and\nlines.',
            "labels": ["node"],
            "series": [(["node-a"], 0.0), (["node-b"], 1.0)],
        },
    ]
}
ALICE, CLIENT, SCRAPER, WRONG = 1, 2, 3, 9
KEYS = (
    key("alice", ALICE, "view"),
    key("client", CLIENT, "none"),
    key("scraper", SCRAPER, "none", metrics=True),
)


def answering(doors: Doors, body: MetricFamilies | None) -> Doors:
    """The same with a controller that answers this, or does not."""

    async def ask(message: Any) -> Any:
        assert message == ShowSeries()
        if body is None:
            raise Unreachable("it is gone")
        return body

    doors.feed.ask = ask  # type: ignore[method-assign]
    return doors


@pytest.fixture
def client() -> Iterator[TestClient]:
    """A scrape of a console that may listen on the network."""
    with client_of(answering(doors_of(with_keys(recorded("four-macs"), *KEYS)), BODY)) as made:
        yield made


def bearer(number: int) -> dict[str, str]:
    return {"authorization": f"Bearer {secret(number)}"}


def samples(page: str) -> dict[str, float]:
    return {
        ",".join((one.name, *one.labels.values())): one.value
        for family in text_string_to_metric_families(page)
        for one in family.samples
    }


def test_prometheus_gets_series_and_a_browser_gets_the_page() -> None:
    client = client_of(answering(doors_of(recorded("four-macs")), BODY))
    answer = client.get("/metrics", headers=PROMETHEUS)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert samples(answer.text) == {
        UP: 1.0,
        "reconciler_revision_held": 1.0,
        "reconciler_node_lost,node-a": 0.0,
        "reconciler_node_lost,node-b": 1.0,
    }
    assert client.get("/metrics").text == answer.text, "as curl asks"
    page = client.get("/metrics?since=24h", headers=BROWSER)
    assert page.headers["content-type"].startswith("text/html")
    assert "metrics-svg" in page.text


def test_where_the_controller_does_not_answer_that_alone_is_told() -> None:
    client = client_of(answering(doors_of(recorded("four-macs")), None))
    answer = client.get("/metrics", headers=PROMETHEUS)
    assert answer.status_code == 200
    assert samples(answer.text) == {UP: 0.0}


@pytest.mark.parametrize("number", [ALICE, SCRAPER])
def test_where_keys_are_on_a_key_for_metrics_or_for_the_console_reads_them(
    client: TestClient, number: int
) -> None:
    answer = client.get("/metrics", headers={**PROMETHEUS, **bearer(number)})
    assert answer.status_code == 200
    assert "reconciler_node_lost" in answer.text


@pytest.mark.parametrize("shown", [{}, bearer(CLIENT), bearer(WRONG), {"cookie": "reconciler-8480=x"}])
def test_without_such_a_key_nothing_is_told_and_nobody_is_sent_to_the_login(
    client: TestClient, shown: dict[str, str]
) -> None:
    answer = client.get("/metrics", headers={**PROMETHEUS, **shown})
    assert answer.status_code == 401, "Prometheus would follow to a page and find no metrics there"
    assert "reconciler_" not in answer.text
    assert "www-authenticate" in answer.headers


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", PROMETHEUS),
        ("/metrics", BROWSER),
        ("/live/metrics", PROMETHEUS),
        ("/metrics/", PROMETHEUS),
        ("//metrics", PROMETHEUS),
        ("/static/../deployments/large", PROMETHEUS),
    ],
)
def test_a_key_for_metrics_opens_nothing_else(client: TestClient, path: str, headers: dict[str, str]) -> None:
    answer = client.get(path, headers={**headers, **bearer(SCRAPER)})
    assert answer.status_code in (401, 404)
    assert "studio" not in answer.text
    assert client.post("/login", data={"key": secret(SCRAPER)}).status_code == 401


def test_a_name_in_the_address_of_a_request_makes_no_scrape_of_it(client: TestClient) -> None:
    odd = {**PROMETHEUS, **bearer(SCRAPER), "host": "127.0.0.1:8480/metrics?"}
    assert client.get("/", headers=odd).status_code in (400, 401, 403)


def test_every_sample_is_read_as_it_was_written() -> None:
    families = list(text_string_to_metric_families(written(BODY).decode()))
    assert [(each.name, each.type) for each in families] == [
        (UP, "gauge"),
        ("reconciler_revision_held", "gauge"),
        ("reconciler_node_lost", "gauge"),
    ]
    assert families[2].documentation == BODY["families"][1]["text"]
