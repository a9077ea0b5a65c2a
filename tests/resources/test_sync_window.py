"""SyncWindow: cron with a time zone, clocks that change, and what is refused with what to write instead."""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import InvalidManifests
from reconciler.resources import Manifest
from reconciler.resources.sync_window import SyncWindowSpec
from reconciler.source.yaml.documents import load
from tests.worlds import deployment, gateway, node, sync_window

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def berlin(moment: float | None) -> str:
    return "" if moment is None else datetime.fromtimestamp(moment, BERLIN).isoformat(timespec="minutes")


def labelled_as(**labels: str) -> Manifest:
    made = deployment("chat-large")
    return made.model_copy(update={"metadata": made.metadata.model_copy(update={"labels": labels})})


def begins(spec: SyncWindowSpec, after: str, count: int) -> list[str]:
    moment, found = at(after), []
    for _ in range(count):
        moment = spec.next_begin(moment)
        found.append(berlin(moment))
    return found


def test_it_is_open_from_its_beginning_to_its_end_and_not_a_second_longer() -> None:
    spec = sync_window(timeZone="Europe/Berlin").spec
    assert spec.end(at("2026-11-25T07:59:59")) is None
    for inside in ("2026-11-25T08:00:00", "2026-11-25T17:59:59"):
        assert berlin(spec.end(at(inside))) == "2026-11-25T18:00+01:00"
    assert spec.end(at("2026-11-25T18:00:00")) is None
    assert spec.end(at("2026-11-28T12:00:00")) is None, "a Saturday"


OVERLAPPING = [  # schedule, duration in hours, a moment, until when it is open from then on
    ("0 8-10 * * *", 3, "2026-11-25T09:30:00", "2026-11-25T13:00+01:00"),
    ("*/30 8-9 * * *", 1, "2026-11-25T08:10:00", "2026-11-25T10:30+01:00"),
    ("0 8,9 * * *", 1, "2026-11-25T08:59:00", "2026-11-25T10:00+01:00"),
    ("0 8,10 * * *", 1, "2026-11-25T08:59:00", "2026-11-25T09:00+01:00"),
    ("0 22 * * 1,2", 30, "2026-11-23T23:00:00", "2026-11-26T04:00+01:00"),
]


@pytest.mark.parametrize(("schedule", "hours", "now", "until"), OVERLAPPING)
def test_a_window_that_begins_again_before_it_ends_is_open_until_the_last_of_them_ends(
    schedule: str, hours: int, now: str, until: str
) -> None:
    spec = sync_window(timeZone="Europe/Berlin", schedule=schedule, duration=f"{hours}h").spec
    assert berlin(spec.end(at(now))) == until


def test_a_window_that_always_begins_again_before_it_ends_has_no_end() -> None:
    spec = sync_window(timeZone="Europe/Berlin", schedule="0 * * * *", duration="2h").spec
    assert spec.end(at("2026-11-25T09:30:00")) == math.inf
    assert spec.is_open(at("2026-11-25T09:30:00"))


@given(
    st.sampled_from(
        ["0 8-17 * * *", "*/20 * * * *", "15 */5 * * 1-5", "0 0 * * 1,3", "30 23 1,2,3 * *", "7 7 * * *"]
    ),
    st.integers(1, 60 * 40),
    st.integers(0, 60 * 24 * 400),
)
@settings(max_examples=300, deadline=None)
def test_a_window_is_open_until_its_end_and_closed_at_it(schedule: str, minutes: int, later: int) -> None:
    spec = sync_window(timeZone="Europe/Berlin", schedule=schedule, duration=f"{minutes}m").spec
    now = at("2026-01-01T00:00:00") + later * 60.0
    end = spec.end(now)
    assert (end is not None) == spec.is_open(now)
    if end is not None and end < math.inf:
        assert not spec.is_open(end)
        assert all(spec.is_open(now + (end - now) * part) for part in (0.25, 0.5, 0.75, 0.9999))


@pytest.mark.parametrize(
    ("schedule", "after", "found"),
    [
        (
            "0 8 * * *",
            "2026-03-28T00:00",
            ["2026-03-28T08:00+01:00", "2026-03-29T08:00+02:00", "2026-03-30T08:00+02:00"],
        ),
        # 02:30 does not exist on the day on which clocks are set forward: it begins when it would have.
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),
        # It exists twice when they are set back: it begins once.
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),
        (
            "0 * * * *",
            "2026-10-25T01:30",
            ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"],
        ),
    ],
)
def test_a_schedule_is_in_the_time_of_its_zone_also_when_clocks_change(
    schedule: str, after: str, found: list[str]
) -> None:
    assert begins(sync_window(schedule=schedule, timeZone="Europe/Berlin").spec, after, len(found)) == found


def test_no_beginning_is_lost_where_clocks_change_by_half_an_hour() -> None:
    spec = sync_window(schedule="0 */6 * * *", timeZone="Australia/Lord_Howe").spec
    zone = ZoneInfo("Australia/Lord_Howe")
    moment, found = datetime(2026, 10, 4, 0, 30, tzinfo=zone).timestamp(), []
    for _ in range(2):
        moment = spec.next_begin(moment)
        found.append(datetime.fromtimestamp(moment, zone).isoformat(timespec="minutes"))
    assert found == ["2026-10-04T06:00+11:00", "2026-10-04T12:00+11:00"]


def test_the_second_of_two_hours_of_the_same_name_is_later_than_the_first() -> None:
    spec = sync_window(schedule="45 2 * * *", timeZone="Europe/Berlin").spec
    second = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1).timestamp()
    assert berlin(spec.next_begin(second)) == "2026-10-26T02:45+01:00"


def test_a_duration_is_time_that_passes() -> None:
    spec = sync_window(schedule="0 22 * * *", duration="10h", timeZone="Europe/Berlin").spec
    assert berlin(spec.end(at("2026-03-28T23:00"))) == "2026-03-29T09:00+02:00"
    assert berlin(spec.end(at("2026-10-24T23:00"))) == "2026-10-25T07:00+01:00"


def test_it_is_for_what_it_names_or_labels_and_else_for_everything() -> None:
    some = sync_window(deployments=["chat-*"], nodes=["n1"], selector={"tier": "production"}).spec
    assert some.names(deployment("chat-small"))
    assert not some.names(deployment("n1"))
    assert some.names(node("n1"))
    assert not some.names(node("n2"))
    labelled = sync_window(selector={"tier": "production", "team": "a"}).spec
    assert labelled.names(labelled_as(tier="production", team="a"))
    assert not labelled.names(labelled_as(tier="production"))
    assert not some.names(gateway())
    assert sync_window().spec.names(gateway())


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("schedule", "0 8 * *", "spec.schedule: expected the five fields of cron"),
        ("schedule", "0 25 * * *", "wrong hour"),
        ("schedule", "@daily", "expected the five fields of cron"),
        ("schedule", "0 0 30 2 *", "spec.schedule"),
        ("timeZone", "Europe/Berlni", 'did you mean "Europe/Berlin"?'),
        ("timeZone", "../../etc/passwd", "expected an IANA time zone"),
        ("duration", "30s", "expected a duration of at least 1m"),
        ("kind", "refuse", "expected one of allow, deny"),
        ("deployments", ["Chat"], "spec.deployments[0]"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_expected(field: str, value: Any, said: str) -> None:
    spec = {"kind": "deny", "schedule": "0 8 * * *", "duration": "1h", field: value}
    body = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": "SyncWindow",
        "metadata": {"name": "w"},
        "spec": spec,
    }
    with pytest.raises(InvalidManifests) as refused:
        load({"w.yaml": json.dumps(body).encode()}, part=True)
    assert said in str(refused.value)
