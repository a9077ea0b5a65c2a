"""Figures are kept in bounded size, and what is read is what was measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.controller.figures.files import File
from reconciler.controller.figures.sample import quantile
from reconciler.controller.figures.series import COARSE, FINE, SERIES_MAX, Key, Ring, Series, Step

LOAD, ERRORS = Key("node/a", "load"), Key("modeldeployment/tiny", "errors")
AT = 1_764_064_800.0
SMALL = Step(10, 6)


@given(st.lists(st.tuples(st.integers(0, 25), st.floats(0, 1000, width=32)), max_size=30))
def test_a_ring_has_the_newest_of_each_slot_whatever_the_clock_does(
    measured: list[tuple[int, float]],
) -> None:
    ring, known = Ring(SMALL), dict[int, float]()
    for slot, value in measured:
        ring.put(slot, {LOAD: value})
        known = {each: found for each, found in known.items() if slot - SMALL.count < each < slot}
        known[slot] = value
    read = ring.read(0, 30).get(LOAD, [math.nan] * 31)
    assert {slot: value for slot, value in enumerate(read) if not math.isnan(value)} == known


def test_an_hour_is_kept_every_ten_seconds_and_a_day_every_minute() -> None:
    series = Series()
    for second in range(0, 2 * 3600, 10):
        series.add(AT + second, {LOAD: second / 3600, ERRORS: 1.0})
    now = AT + 2 * 3600 - 10
    hour = series.read(3600, now, 360)
    assert (hour.seconds, hour.count) == (10, 360)
    assert hour.values[LOAD][-1] == (2 * 3600 - 10) / 3600 or math.isclose(
        hour.values[LOAD][-1], 1.997, rel_tol=1e-3
    )
    day = series.read(86400, now, 180)
    assert day.seconds == 480
    assert len(day.values[LOAD]) == day.count == 180
    assert max(value for value in day.values[ERRORS] if not math.isnan(value)) == 48.0, "counts are summed"


def test_a_series_that_ends_is_forgotten_and_their_number_is_bounded() -> None:
    ring = Ring(SMALL)
    ring.put(0, {Key(f"node/{number}", "load"): 1.0 for number in range(SERIES_MAX + 100)})
    assert len(ring.read(0, 0)) == SERIES_MAX
    ring.put(SMALL.count, {LOAD: 1.0})
    assert list(ring.read(0, SMALL.count)) == [LOAD]


def test_files_give_back_what_was_measured_and_stay_small(tmp_path: Path) -> None:
    file = File(tmp_path / "figures", SMALL)
    for slot in range(40):
        file.add(slot, {LOAD: slot / 7, **({ERRORS: 1.0} if slot > 36 else {})})
    file.add(40, {LOAD: math.nan})
    lines = [len(path.read_text().splitlines()) for path in (tmp_path / "figures").iterdir()]
    assert max(lines) <= SMALL.count + 4
    ring = Ring(SMALL)
    for slot in range(41, 43):
        again = File(tmp_path / "figures", SMALL)
        again.load(ring)
        again.add(slot, {})  # starts follow each other quickly, and cost nothing of what is kept
    read = ring.read(35, 40)
    assert [round(value, 3) for value in read[LOAD][:-1]] == [round(slot / 7, 3) for slot in range(35, 40)]
    assert math.isnan(read[LOAD][-1])
    assert read[ERRORS][2:5] == [1.0] * 3


def test_a_file_that_was_cut_or_spoilt_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    file = File(tmp_path, SMALL)
    for slot in range(3):
        file.add(slot, {LOAD: 1.0})
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text() + "[3, 0.")
    ring = Ring(SMALL)
    File(tmp_path, SMALL).load(ring)
    assert ring.last == 2
    path.write_text("no figures")
    File(tmp_path, SMALL).load(Ring(SMALL))


def test_quantiles_are_as_prometheus_takes_them() -> None:
    bounds = (0.1, 0.5, 1.0)
    assert quantile([0, 0, 0, 0], bounds, 0.5) is None
    assert quantile([10, 0, 0, 0], bounds, 0.5) == 0.05
    assert quantile([5, 5, 0, 0], bounds, 0.95) == pytest.approx(0.46)
    assert quantile([0, 0, 0, 3], bounds, 0.5) == 1.0


def test_what_is_kept_is_as_large_as_is_said() -> None:
    assert 4 * (FINE.count + COARSE.count) == 7200
