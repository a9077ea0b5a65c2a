"""The times and tokens of one request, on a clock that the test moves."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reconciler.gateway.metrics import Metrics, Timeline
from reconciler.wire.generation import Accepted, Delta, Finished, Prefill

BEGAN = 5000.0
"""Of a monotonic clock, which begins anywhere."""


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(lambda: ())


def samples(metrics: Metrics) -> dict[str, float]:
    """The values of the model's series by their names, without ``vllm:`` and the label of the model."""
    lines = metrics.page().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if 'model_name="llama"' in line)
    short = (
        (name.replace('model_name="llama"', "").replace("{}", "").removeprefix("vllm:"), float(value))
        for name, value in pairs
    )
    return dict(short)


def times(metrics: Metrics) -> dict[str, float]:
    """The sums in seconds."""
    end = "_seconds_sum"
    return {name.removesuffix(end): value for name, value in samples(metrics).items() if name.endswith(end)}


def running_and_waiting(metrics: Metrics) -> tuple[float, float]:
    seen = samples(metrics)
    return seen["num_requests_running"], seen["num_requests_waiting"]


def answered(timeline: Timeline) -> None:
    """2 s in a queue, 3 s until the first token, then two more pieces after 4 s each."""
    timeline.on_event(Accepted("r", (1, 2, 3)), BEGAN)
    timeline.on_event(Prefill("r", 1, 3), BEGAN + 2)
    timeline.on_event(Delta("r", (7,), "a"), BEGAN + 5)
    timeline.on_event(Delta("r", (8, 9), "bc"), BEGAN + 9)
    timeline.on_event(Delta("r", (10,), "d"), BEGAN + 13)
    timeline.on_event(Finished("r", "stop", 3, 4), BEGAN + 14)


def test_tokens_that_were_not_read_again_are_counted_beside_all_that_were_looked_for(
    metrics: Metrics,
) -> None:
    for cached in (0, 2):
        metrics.begin("llama", BEGAN).on_event(Finished("r", "stop", 3, 4, cached), BEGAN + 1)
    seen = samples(metrics)
    assert (seen["prefix_cache_queries_total"], seen["prefix_cache_hits_total"]) == (6, 2)


def test_each_stage_takes_its_part_of_the_time(metrics: Metrics) -> None:
    timeline = metrics.begin("llama", BEGAN)
    answered(timeline)
    timeline.end("stop", BEGAN + 15)
    assert times(metrics) == {
        "e2e_request_latency": 15,
        "request_queue_time": 2,
        "time_to_first_token": 5,
        "request_prefill_time": 3,
        "request_decode_time": 8,
        "inter_token_latency": 2 + 4,
        "request_time_per_output_token": pytest.approx(8 / 3),
    }
    seen = samples(metrics)
    assert (seen["prompt_tokens_total"], seen["generation_tokens_total"]) == (3, 4)
    assert (seen["request_prompt_tokens_sum"], seen["request_generation_tokens_sum"]) == (3, 4)


def test_a_request_is_waiting_then_running_then_gone(metrics: Metrics) -> None:
    first, second = metrics.begin("llama", BEGAN), metrics.begin("llama", BEGAN)
    assert running_and_waiting(metrics) == (0, 2)
    first.on_event(Prefill("r", 1, 3), BEGAN + 1)
    assert running_and_waiting(metrics) == (1, 1)
    first.end("stop", BEGAN + 2)
    second.end("abort", BEGAN + 2)
    assert running_and_waiting(metrics) == (0, 0)


@pytest.mark.parametrize(
    ("reason", "counted"),
    [("tool_calls", "stop"), *((name, name) for name in ("stop", "length", "repetition", "abort", "error"))],
)
def test_an_end_is_counted_as_vllm_counts_it(metrics: Metrics, reason: str, counted: str) -> None:
    metrics.begin("llama", BEGAN).end(reason, BEGAN + 1)
    names = ("stop", "length", "repetition", "abort", "error")
    seen = samples(metrics)
    found = {name: seen[f'request_success_total{{finished_reason="{name}",}}'] for name in names}
    assert found == {name: name == counted for name in names}


def test_one_that_nobody_answered_has_waited_all_the_time_and_decoded_nothing(metrics: Metrics) -> None:
    metrics.begin("llama", BEGAN).end("error", BEGAN + 30)
    seen = samples(metrics)
    assert times(metrics)["request_queue_time"] == 30
    assert seen["request_decode_time_seconds_count"] == 0
    assert seen["request_time_per_output_token_seconds_count"] == 0
    assert seen["request_generation_tokens_count"] == 1


def test_of_two_tokens_the_second_has_the_time_after_the_first(metrics: Metrics) -> None:
    timeline = metrics.begin("llama", BEGAN)
    timeline.on_event(Delta("r", (7,), "a"), BEGAN + 5)
    timeline.on_event(Delta("r", (8,), "b"), BEGAN + 8)
    timeline.end("stop", BEGAN + 9)
    assert times(metrics)["request_time_per_output_token"] == 3


def test_a_single_token_has_no_time_after_it(metrics: Metrics) -> None:
    timeline = metrics.begin("llama", BEGAN)
    timeline.on_event(Delta("r", (7,), "a"), BEGAN + 5)
    timeline.on_event(Delta("r", (), "", "still"), BEGAN + 6)
    timeline.end("stop", BEGAN + 7)
    seen = samples(metrics)
    assert seen["request_decode_time_seconds_count"] == 1
    assert seen["request_time_per_output_token_seconds_count"] == 0
    assert seen["inter_token_latency_seconds_count"] == 0


def test_tokens_that_came_with_no_text_are_counted_at_the_end(metrics: Metrics) -> None:
    timeline = metrics.begin("llama", BEGAN)
    timeline.on_event(Delta("r", (7, 8), "a"), BEGAN + 1)
    timeline.on_event(Finished("r", "length", 3, 5), BEGAN + 2)
    timeline.end("length", BEGAN + 2)
    assert samples(metrics)["generation_tokens_total"] == 5


def test_one_that_goes_on_elsewhere_or_gives_way_waits_again_and_that_time_counts(metrics: Metrics) -> None:
    timeline = metrics.begin("llama", BEGAN)
    timeline.wait(BEGAN + 1)  # its first group refused it: nothing is continued
    timeline.on_event(Accepted("r", (1, 2, 3)), BEGAN + 2)
    timeline.on_event(Delta("r", (7,), "a"), BEGAN + 2)
    timeline.wait(BEGAN + 3)
    timeline.on_event(Accepted("r", (1, 2, 3)), BEGAN + 8)
    timeline.on_event(Delta("r", (8,), "b"), BEGAN + 8)
    timeline.give_way(BEGAN + 10)
    timeline.on_event(Delta("r", (9,), "c"), BEGAN + 14)
    timeline.end("stop", BEGAN + 15)
    seen = samples(metrics)
    assert seen["reconciler_requests_continued_total"] == 1
    assert seen["reconciler_requests_gave_way_total"] == 1
    assert times(metrics)["request_queue_time"] == 2 + 5 + 4
    assert seen["prompt_tokens_total"] == 3
    assert seen["request_prompt_tokens_count"] == 1


@pytest.mark.parametrize("again", [Timeline.wait, Timeline.give_way])
def test_what_was_read_of_a_prompt_is_gone_when_the_request_waits_again(
    metrics: Metrics, again: Callable[[Timeline, float], None]
) -> None:
    timeline = metrics.begin("llama", BEGAN)
    timeline.on_event(Prefill("r", 1, 3), BEGAN + 1)
    again(timeline, BEGAN + 2)
    assert timeline.reading is None
    timeline.on_event(Prefill("r", 1, 3), BEGAN + 3)
    assert timeline.reading == (1, 3)


FIRST_TOKEN = "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
PER_TOKEN = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"
LATENCY = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("time_to_first_token_seconds", FIRST_TOKEN),
        ("inter_token_latency_seconds", PER_TOKEN),
        ("request_time_per_output_token_seconds", PER_TOKEN),
        ("e2e_request_latency_seconds", LATENCY),
        ("request_queue_time_seconds", LATENCY),
        ("request_prefill_time_seconds", LATENCY),
        ("request_decode_time_seconds", LATENCY),
        ("request_prompt_tokens", "1 2 5 10 20 50 100 200 500"),
        ("request_generation_tokens", "1 2 5 10 20 50 100 200 500"),
    ],
)
def test_times_and_tokens_are_sorted_into_the_buckets_of_vllm(
    metrics: Metrics, name: str, bounds: str
) -> None:
    """As in ``vllm/v1/metrics/loggers.py``: who compares both, or has its dashboards, sees the same quantiles."""
    metrics.begin("llama", BEGAN)
    found = re.findall(rf'vllm:{name}_bucket{{le="([0-9.e+]+)"', metrics.page().decode())
    wanted = [float(bound) for bound in bounds.split()]
    assert [float(bound) for bound in found][: len(wanted)] == wanted
    assert len(found) in (len(wanted), 3 * 7), "tokens go on to five million"


def test_a_model_has_one_set_of_series_however_many_requests(metrics: Metrics) -> None:
    for _ in range(3):
        metrics.begin("llama", BEGAN).end("stop", BEGAN + 1)
    assert samples(metrics)["e2e_request_latency_seconds_count"] == 3
