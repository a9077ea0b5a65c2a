"""What is measured as time goes on, evenly or not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from reconciler.controller.figures.keeper import Keeper
from reconciler.controller.figures.series import Key
from reconciler.wire.figures import GatewayFigures, ModelFigures

SPEED, ERRORS = (Key("modeldeployment/tiny", name) for name in ("tokensPerSecond", "errors"))


@dataclass
class Gateway:
    """A gateway that answers with a hundred tokens a second, and an error every ten."""

    now: float = 1_000_000.0
    keeper: Keeper = field(init=False)

    def __post_init__(self) -> None:
        self.keeper = Keeper(None, dict, self.figures, lambda: self.now)

    def figures(self) -> GatewayFigures:
        done = int(self.now)
        return GatewayFigures(1, 7, (), (ModelFigures("tiny", 0, 0, done // 10, (0,), tokens=100 * done),))

    def after(self, *seconds: float) -> None:
        for each in seconds:
            self.now += each
            self.keeper.measure()

    def known(self, key: Key) -> list[float]:
        values = self.keeper.series.read(600.0, self.now, 60).values[key]
        return [value for value in values if not math.isnan(value)]


def test_a_time_in_which_nothing_was_measured_is_no_peak() -> None:
    gateway = Gateway()
    gateway.after(0.0, 10.0, 300.0, 10.0)
    assert gateway.known(SPEED) == [100.0, 100.0, 100.0]


def test_who_wakes_up_early_measures_nothing_twice() -> None:
    gateway = Gateway()
    gateway.after(0.0, 10.0, 9.999, 0.001, 10.0)
    assert gateway.known(ERRORS) == [1.0, 1.0, 1.0]


def test_a_clock_that_was_set_back_begins_anew() -> None:
    gateway = Gateway()
    gateway.after(0.0, 10.0, -100.0, 10.0)
    assert gateway.known(SPEED) == [100.0]
