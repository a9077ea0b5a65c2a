"""What load balancers, scripts and Prometheus ask the gateway."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import orjson

from reconciler.gateway.routing.timeouts import Timing

from .conftest import HELLO, Cluster, Start
from .rank_double import CACHED, KEPT, PROMPT, Turn, silent, story


async def ask(cluster: Cluster, path: str) -> tuple[int, dict[str, object]]:
    async with cluster.http.get(cluster.url(path)) as answer:
        return answer.status, orjson.loads(await answer.read())


async def test_health_is_the_process_alone(start: Start) -> None:
    cluster = await start()
    assert await ask(cluster, "/health") == (200, {"status": "ok"})


async def test_ready_needs_a_group_that_is_connected(start: Start) -> None:
    cluster = await start(hold_seconds=0.2)
    status, body = await ask(cluster, "/ready")
    assert (status, body["models"]) == (503, {"llama": 0})
    await cluster.routed(await cluster.rank(story(1)))
    for _ in range(200):
        status, body = await ask(cluster, "/ready")
        if status == 200:
            break
        await asyncio.sleep(0.02)
    assert (status, body) == (200, {"status": "ready", "models": {"llama": 1}})


async def test_an_answer_is_counted_with_its_tokens_and_times(start: Start) -> None:
    cluster = await start(story(5))
    for _ in range(3):
        assert (await cluster.post({"model": "gpt-4o", "messages": HELLO}))[0] == 200
    seen = await cluster.samples()
    assert seen['vllm:prompt_tokens_total{model_name="llama"}'] == 3 * len(PROMPT)
    assert seen['vllm:generation_tokens_total{model_name="llama"}'] == 15
    assert seen['vllm:request_success_total{finished_reason="stop",model_name="llama"}'] == 3
    for name in (
        "time_to_first_token_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
        "request_prefill_time_seconds",
        "request_decode_time_seconds",
        "request_generation_tokens",
        "request_prompt_tokens",
        "request_time_per_output_token_seconds",
    ):
        assert seen[f'vllm:{name}_count{{model_name="llama"}}'] == 3, name
    assert seen['vllm:inter_token_latency_seconds_count{model_name="llama"}'] == 12
    assert seen['reconciler_replica_epoch{model_name="llama",replica="0"}'] == 1
    assert seen['reconciler_replica_connected{model_name="llama",replica="0"}'] == 1
    assert seen['vllm:prefix_cache_queries_total{model_name="llama"}'] == 3 * len(PROMPT)
    assert seen['vllm:prefix_cache_hits_total{model_name="llama"}'] == 3 * CACHED
    assert seen['reconciler_prefix_cache_bytes{model_name="llama",replica="0"}'] == KEPT.bytes
    assert seen['reconciler_prefix_cache_max_bytes{model_name="llama",replica="0"}'] == KEPT.bytes_max
    assert seen['reconciler_prefix_cache_evictions_total{model_name="llama",replica="0"}'] == KEPT.evictions
    assert seen['http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}'] == 3


async def test_requests_wait_and_then_run(start: Start) -> None:
    cluster = await start()
    async with asyncio.TaskGroup() as tasks:
        held = tasks.create_task(cluster.post({"model": "llama", "messages": HELLO}))
        await cluster.until_waiting(1)
        release = asyncio.Event()

        async def slowly(turn: Turn) -> None:
            turn.accept()
            turn.prefill(3, 3)
            await release.wait()
            turn.say("yes", 1)
            turn.finish()

        cluster.route(await cluster.rank(slowly))
        await cluster.until_sample('vllm:num_requests_running{model_name="llama"}', 1)
        seen = await cluster.samples()
        assert seen['vllm:num_requests_waiting{model_name="llama"}'] == 0
        release.set()
    assert held.result()[0] == 200
    seen = await cluster.samples()
    assert seen['vllm:num_requests_running{model_name="llama"}'] == 0


async def test_a_client_that_goes_is_an_abort_and_a_fault_an_error(start: Start) -> None:
    cluster = await start(silent, timing=Timing(shutdown=0.5, keep_alive=0.05))
    async with cluster.http.post(
        cluster.url("/v1/chat/completions"), json={"model": "llama", "messages": HELLO, "stream": True}
    ):
        await cluster.until_waiting(1)
    await cluster.until_sample('vllm:request_success_total{finished_reason="abort",model_name="llama"}', 1)

    async def refuse(turn: Turn) -> None:
        turn.fail("invalid_request")

    cluster.ranks[0].script = refuse
    assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 400
    seen = await cluster.samples()
    assert seen['vllm:request_success_total{finished_reason="error",model_name="llama"}'] == 1
    assert seen['vllm:num_requests_waiting{model_name="llama"}'] == 0


async def test_an_answer_that_goes_on_elsewhere_is_counted_as_one(start: Start) -> None:
    cluster = await start(story(6, die_after=3))
    cluster.ranks[0].script = story(6, die_after=3)
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(cluster.post({"model": "llama", "messages": HELLO}))
        await cluster.ranks[0].until(lambda rank: bool(rank.asked))
        cluster.route(await cluster.rank(story(6), epoch=2))
    assert asked.result()[0] == 200
    seen = await cluster.samples()
    assert seen['reconciler_requests_continued_total{model_name="llama"}'] == 1
    assert seen['vllm:generation_tokens_total{model_name="llama"}'] == 6
    assert seen['vllm:request_success_total{finished_reason="stop",model_name="llama"}'] == 1


async def test_what_clients_make_up_becomes_no_label(start: Start) -> None:
    cluster = await start(story(1))
    for path in ("/v1/secret-1", "/v1/secret-2"):
        async with cluster.http.get(cluster.url(path)) as answer:
            assert answer.status == 404
    assert (await cluster.post({"model": "made-up", "messages": HELLO}))[0] == 404
    async with cluster.http.request("LOCK", cluster.url("/health")) as answer:
        assert answer.status == 405
    async with cluster.http.get(cluster.url("/metrics")) as answer:
        text = await answer.text()
    assert not re.search("secret|made-up|LOCK", text)
    assert 'http_requests_total{handler="other",method="GET",status="4xx"} 2.0' in text


async def test_every_metric_of_the_dashboard_is_there(start: Start) -> None:
    cluster = await start(story(1))
    assert (await cluster.post({"model": "llama", "messages": HELLO}))[0] == 200
    async with cluster.http.get(cluster.url("/metrics")) as answer:
        kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", await answer.text(), re.MULTILINE))
    there = set(kinds).union(f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram")
    dashboard = (Path(__file__).parents[2] / "examples" / "grafana" / "reconciler.json").read_text()
    named = set(re.findall(r"\b(?:vllm:|reconciler_)\w+", dashboard))
    assert named
    assert named <= there
