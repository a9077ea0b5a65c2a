"""Figures over time, as pictures and as words."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.console.view.metrics import metrics, spark
from reconciler.console.view.plots import HEIGHT, STEP, Span, marks, nice, path, plot, span_of
from reconciler.console.view.quantities import number, size
from reconciler.wire.answers import FigureMark, Figures

from .snapshots import AT, history, page_of, recorded

VALUES = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=40)
PAGE_BYTES_MAX = 90_000
"""With style sheet and scripts it is to stay below 150,000."""


def shown(path: str, name: str = "") -> str:
    return page_of(recorded("four-macs"), path, name)


@given(st.floats(1e-6, 1e13))
def test_the_upper_edge_of_a_plot_is_round_and_not_far_above_what_is_largest(largest: float) -> None:
    assert largest <= nice(largest) <= 10.01 * max(largest, 0.01)


@given(VALUES)
def test_a_line_stays_within_its_plot_and_stops_where_nothing_is_known(values: list[float | None]) -> None:
    most = nice(max((value for value in values if value is not None), default=1.0))
    drawn = path(values, most)
    points = re.findall(r"(\d+) (-?\d+)", drawn)
    assert [int(x) // STEP for x, _ in points] == [i for i, value in enumerate(values) if value is not None]
    assert all(0 <= int(y) <= HEIGHT for _, y in points)
    begins = [i for i, value in enumerate(values) if value is not None and (i == 0 or values[i - 1] is None)]
    assert drawn.count("M") == len(begins)


def test_a_plot_says_in_words_what_it_shows() -> None:
    span = Span(datetime.fromtimestamp(AT, UTC), 40, 90)
    found = plot("Requests", span, [("running", [*[None] * 88, 4.0, 2.0]), ("waiting", [None] * 90)], number)
    assert found is not None
    assert found.summary == "Requests: running 2 now, at most 4"
    assert found.top == "4"
    assert found.columns[-1].text.endswith("UTC: running 3")
    assert plot("Errors", span, [("", [None] * 90)], number) is None


@pytest.mark.parametrize("name", ["", "6h", "24h", "<script>", "../../etc/passwd"])
def test_the_page_has_plots_words_and_what_happened(name: str) -> None:
    html = shown("/metrics", name)
    assert html.count('<svg class="metrics-svg"') == 4
    assert "Figures of large over time" in html
    assert "rank crash (C8)" in html
    assert "reconciler top --since " + (name if name in ("6h", "24h") else "1h") in html
    assert "<script>" not in html
    assert "style=" not in html


def test_a_deployment_and_the_overview_have_small_ones_too() -> None:
    assert "The last hour" in shown("/deployments/{name}", "large")
    assert "metrics-spark" in shown("/")
    assert spark(recorded("four-macs"), "modeldeployment/absent", "tokensPerSecond") == ""


def test_of_two_hundred_machines_the_page_stays_small() -> None:
    snapshot = recorded("four-macs")
    many: list[Any] = [
        {**each, "metadata": {**each["metadata"], "name": f"mac-{number:03}"}}
        for number in range(200)
        for each in snapshot.nodes[:1]
    ]
    more: list[Any] = [
        {**each, "metadata": {**each["metadata"], "name": f"model-{number}"}}
        for number in range(20)
        for each in snapshot.deployments[:1]
    ]
    body = history(3600, 90)
    series: list[Figures] = [
        {
            "object": f"{each['kind'].lower()}/{each['metadata']['name']}",
            "name": one["name"],
            "values": one["values"],
        }
        for each in (*many, *more)
        for one in body["series"]
    ]
    whole = replace(snapshot, objects=(*many, *more), metrics={"1h": {**body, "series": series}})
    assert len(page_of(whole, "/metrics")) < PAGE_BYTES_MAX
    assert metrics(whole, "1h").more == 176 + 16


def test_the_page_of_metrics_writes_power_as_all_others_do() -> None:
    snapshot = recorded("four-macs")
    metrics = copy.deepcopy(dict(snapshot.metrics))
    metrics["1h"]["series"].append(
        {"object": "node/studio-1", "name": "watts", "values": [12_345.0] * metrics["1h"]["count"]}
    )
    shown = page_of(replace(snapshot, metrics=metrics), "/metrics")
    assert "12.3 kW" in shown
    assert "12345 W" not in shown


def test_sizes_and_numbers_are_as_people_write_them() -> None:
    assert [number(value) for value in (0.0, 0.123, 4.0, 4.56, 1234.5)] == ["0", "0.12", "4", "4.6", "1234"]
    assert [size(value) for value in (0, 2**30, 3.5 * 2**40)] == ["0 bytes", "1 GiB", "3.5 TiB"]
    assert not math.isnan(nice(0))


def test_what_has_just_happened_stands_at_the_edge_of_the_plot_and_not_beyond_it() -> None:
    answer = history(3600, 90)
    span = span_of(answer)
    just_now = (span.ends - timedelta(seconds=1)).isoformat()
    news: FigureMark = {
        "time": just_now,
        "object": "modeldeployment/large",
        "kind": "group",
        "text": "formed",
    }
    assert [mark.x for mark in marks({**answer, "marks": [news]}, span)] == [span.width]
