"""Legacy completions, and several answers to one request, asked by OpenAI's own SDK."""

from __future__ import annotations

from typing import Any

import openai
import orjson
import pytest
from yarl import URL

from reconciler.gateway.dialects.openai.completions import CompletionRequest, parse_completion
from reconciler.gateway.errors import ApiError
from reconciler.wire.generation import Accepted, Finished, Likely, Scored, TokenLogprobs
from reconciler.wire.sampling import Ending
from tests.gateway.conftest import HELLO, Cluster, Start
from tests.gateway.rank_double import PROMPT, Turn, story, told


def parsed(**fields: Any) -> CompletionRequest:
    return parse_completion(orjson.dumps({"model": "llama", "prompt": "Once", **fields}), 42)


@pytest.mark.parametrize(
    ("prompt", "texts", "tokens"),
    [
        ("Once", ["Once"], [None]),
        (["a", "b"], ["a", "b"], [None, None]),
        ([5, 6], [None], [(5, 6)]),
        ([[5, 6], [7]], [None, None], [(5, 6), (7,)]),
        (["a", [7]], ["a", None], [None, (7,)]),
    ],
)
def test_a_prompt_is_text_or_tokens_one_or_many(prompt: Any, texts: list[Any], tokens: list[Any]) -> None:
    choices = parsed(prompt=prompt).choices
    assert [choice.prompt for choice in choices] == texts
    assert [choice.prompt_tokens for choice in choices] == tokens


def test_the_answer_has_sixteen_tokens_where_the_client_does_not_say() -> None:
    assert parsed().choices[0].tokens_max == 16
    assert parsed(max_tokens=None).choices[0].tokens_max == 16
    assert parsed(max_tokens=3).choices[0].tokens_max == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", None),
        ("prompt", ""),
        ("prompt", []),
        ("prompt", [""]),
        ("prompt", ["a", ""]),
        ("prompt", [[]]),
        ("prompt", [[5], []]),
        ("prompt", [5, "a"]),
        ("prompt", [True]),
        ("prompt", [1.5]),
        ("prompt", [-1]),
        ("prompt", [2**31]),
        ("prompt", 5),
        ("prompt", {"text": "a"}),
        ("prompt", ["a"] * 65),
        ("prompt", [5] * 5_000_000),
        ("prompt", ["a", [5] * 2_000_000]),
        ("suffix", "the end"),
        ("suffix", 3),
        ("logprobs", -1),
        ("logprobs", 21),
        ("logprobs", True),
        ("min_tokens", 17),
        ("stop_token_ids", [None]),
        ("best_of", 2),
        ("n", 9),
        ("echo", "yes"),
        ("max_tokens", 0),
        ("max_tokens", "many"),
        ("stop", [5]),
        ("frequency_penalty", 3),
        ("logit_bias", {"x": 1}),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ApiError) as caught:
        parsed(**{field: value})
    assert (caught.value.status, caught.value.param) == (400, field)


def test_null_is_the_same_as_absent() -> None:
    optional = (
        "stream echo suffix logprobs best_of n max_tokens stop seed logit_bias stream_options user min_tokens"
    )
    assert parsed(**dict.fromkeys(optional.split())) == parsed()


def test_penalties_ends_logprobs_and_session_are_passed_on() -> None:
    request = parsed(
        repetition_penalty=2, min_tokens=16, stop_token_ids=[7], logprobs=0, prompt_cache_key="a"
    )
    (generate,) = request.choices
    assert generate.sampling.repetition_penalty == 2.0
    assert generate.ending == Ending(tokens_min=16, stop_tokens=(7,))
    assert (generate.logprobs, request.session) == (0, "a")
    assert parsed(logprobs=False) == parsed()


def test_an_echoed_prompt_is_scored_where_log_probabilities_are_asked_for() -> None:
    (generate,) = parsed(echo=True, logprobs=2, max_tokens=0).choices
    assert (generate.echo, generate.logprobs, generate.scores, generate.tokens_max) == (True, 2, 2, 0)
    (echoed,), (reported,) = parsed(echo=True).choices, parsed(logprobs=2).choices
    assert (echoed.scores, reported.scores) == (None, None)
    with pytest.raises(ApiError) as caught:
        parsed(echo=True, logprobs=1, stream=True)
    assert (caught.value.param, caught.value.code) == ("stream", "unsupported_parameter")


def token(number: int, logprob: float, *likeliest: tuple[int, float]) -> TokenLogprobs:
    likely = [Likely(each, f"t{each}", of, (116, 48 + each)) for each, of in ((number, logprob), *likeliest)]
    return TokenLogprobs(likely[0], tuple(likely[1:]))


SCORED = (token(1, 0.0), token(2, -0.5, (2, -0.5)), token(3, -2.0, (5, -0.1)))


async def test_the_tokens_of_a_scored_prompt_come_before_those_of_the_answer(start: Start) -> None:
    async def score(turn: Turn) -> None:
        assert (turn.generate.scores, turn.generate.tokens_max) == (1, 1)
        turn.send(Accepted(turn.generate.request, PROMPT, "t1t2t3"))
        turn.send(Scored(turn.generate.request, 0, SCORED[:1]), Scored(turn.generate.request, 1, SCORED[1:]))
        turn.say("t4", 4, logprobs=[token(4, -0.25, (4, -0.25))])
        turn.finish("length")

    cluster = await start(score)
    reply = await cluster.client.completions.create(
        model="llama", prompt=[1, 2, 3], echo=True, logprobs=1, max_tokens=1
    )
    (choice,) = reply.choices
    assert (choice.text, choice.finish_reason) == ("t1t2t3t4", "length")
    assert choice.logprobs is not None
    assert choice.logprobs.model_dump() == {
        "tokens": ["t1", "t2", "t3", "t4"],
        "token_logprobs": [None, -0.5, -2.0, -0.25],
        "top_logprobs": [None, {"t2": -0.5}, {"t5": -0.1, "t3": -2.0}, {"t4": -0.25}],
        "text_offset": [0, 2, 4, 6],
    }


async def test_a_scored_prompt_survives_the_loss_of_its_group(start: Start) -> None:
    async def dies_once(turn: Turn) -> None:
        turn.send(Accepted(turn.generate.request, PROMPT, "t1t2t3"))
        turn.send(Scored(turn.generate.request, 0, SCORED[:2]))
        if len(cluster.ranks[0].asked) == 1:
            turn.die()
            return
        turn.send(Scored(turn.generate.request, 2, SCORED[2:]))
        turn.finish("length")

    cluster = await start(dies_once)
    reply = await cluster.client.completions.create(
        model="llama", prompt=[1, 2, 3], echo=True, logprobs=0, max_tokens=0
    )
    assert reply.choices[0].logprobs is not None
    assert reply.choices[0].logprobs.token_logprobs == [None, -0.5, -2.0]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 0)


async def test_a_group_of_an_earlier_version_that_says_nothing_of_a_prompt_is_named(start: Start) -> None:
    async def unaware(turn: Turn) -> None:
        turn.accept()
        turn.say("x", 1, logprobs=[token(1, 0.0)])
        turn.finish("length")

    cluster = await start(unaware)
    with pytest.raises(openai.InternalServerError) as caught:
        await cluster.client.completions.create(
            model="llama", prompt="Once", echo=True, logprobs=0, max_tokens=1
        )
    assert (caught.value.status_code, caught.value.code) == (501, "older_group")


async def test_a_completion_is_the_text_alone(start: Start) -> None:
    cluster = await start(story(3))
    reply = await cluster.client.completions.create(model="llama", prompt="Once")
    assert reply.object == "text_completion"
    assert reply.id.startswith("cmpl-")
    (choice,) = reply.choices
    assert (choice.text, choice.finish_reason, choice.index) == (told(3), "stop", 0)
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (len(PROMPT), 3)


async def test_choices_come_prompt_by_prompt_and_each_prompt_counts_once(start: Start) -> None:
    async def name(turn: Turn) -> None:
        turn.accept()
        turn.say(f"{turn.generate.prompt}{turn.generate.sampling.seed}", 1)
        turn.finish()

    cluster = await start(name)
    reply = await cluster.client.completions.create(model="llama", prompt=["a", "b"], n=2, seed=7)
    assert [(choice.index, choice.text) for choice in reply.choices] == [
        (0, "a7"),
        (1, "a8"),
        (2, "b7"),
        (3, "b8"),
    ]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2 * len(PROMPT), 4)


async def test_a_streamed_completion_ends_once_after_its_last_choice(start: Start) -> None:
    cluster = await start(story(4))
    texts, reasons, usages = {0: "", 1: ""}, [], []
    stream = await cluster.client.completions.create(
        model="llama", prompt=["a", "b"], stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        assert chunk.object == "text_completion"
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert texts == {0: told(4), 1: told(4)}
    assert reasons == ["stop", "stop"]
    assert [usage.completion_tokens for usage in usages] == [8]


async def _lines(cluster: Cluster, path: str, **fields: Any) -> list[str]:
    body = {"model": "llama", "stream": True, **fields}
    async with cluster.http.post(cluster.url(path), data=orjson.dumps(body)) as answer:
        assert answer.status == 200, await answer.text()
        return [line for line in (await answer.read()).decode().split("\n") if line]


async def test_several_answers_of_a_chat_are_told_apart_by_their_index(start: Start) -> None:
    cluster = await start(story(3), story(3))
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO, n=3)
    assert [(choice.index, choice.message.content) for choice in reply.choices] == [
        (index, told(3)) for index in range(3)
    ]
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (len(PROMPT), 9)
    lines = await _lines(cluster, "/v1/chat/completions", messages=HELLO, n=3)
    assert lines.count("data: [DONE]") == 1
    assert lines[-1] == "data: [DONE]"
    choices = [orjson.loads(line[6:])["choices"][0] for line in lines[:-1]]
    for index in range(3):
        own = [choice for choice in choices if choice["index"] == index]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert own[-1]["finish_reason"] == "stop"
        assert "".join(choice["delta"].get("content", "") for choice in own) == told(3)


async def test_one_answer_that_cannot_be_given_ends_the_others(start: Start) -> None:
    async def some(turn: Turn) -> None:
        if turn.generate.prompt == "bad":
            turn.fail("invalid_request", "no", "prompt")
            return
        turn.accept()
        await turn.hang()

    cluster = await start(some)
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.completions.create(model="llama", prompt=["good", "bad"])
    assert caught.value.param == "prompt"
    (good,) = [asked.request for asked in cluster.ranks[0].asked if asked.prompt == "good"]
    await cluster.ranks[0].until(lambda rank: good in rank.cancelled)


async def test_several_answers_survive_the_loss_of_a_group(start: Start) -> None:
    async def dies_once(turn: Turn) -> None:
        fresh = len(cluster.ranks[0].asked) <= 3
        await story(6, die_after=2 if fresh else None)(turn)

    cluster = await start(dies_once)
    reply = await cluster.client.chat.completions.create(model="llama", messages=HELLO, n=3)
    assert [choice.message.content for choice in reply.choices] == [told(6)] * 3


async def test_one_model_is_found_by_its_name_with_slashes_encoded_or_not(start: Start) -> None:
    cluster = await start(story(1))
    cluster.route(cluster.ranks[0], model="mlx-community/Llama-3.3")
    for path in ("mlx-community/Llama-3.3", "mlx-community%2FLlama-3.3", "gpt-4o?x=1"):
        async with cluster.http.get(_exactly(cluster, f"/v1/models/{path}")) as answer:
            assert answer.status == 200
            assert (await answer.json())["object"] == "model"
    model = await cluster.client.models.retrieve("mlx-community/Llama-3.3")
    assert (model.id, model.owned_by) == ("mlx-community/Llama-3.3", "reconciler")
    with pytest.raises(openai.NotFoundError) as caught:
        await cluster.client.models.retrieve("nope/%zz\u00e9")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def _exactly(cluster: Cluster, path: str) -> Any:
    return URL(cluster.url(path), encoded=True)


async def test_tokens_beyond_the_context_are_refused_before_there_is_a_group(start: Start) -> None:
    cluster = await start()
    with pytest.raises(openai.BadRequestError) as caught:
        await cluster.client.completions.create(model="llama", prompt=[5] * 4096)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "prompt")


async def test_an_echoed_prompt_is_the_first_text_of_a_stream(start: Start) -> None:
    async def echo(turn: Turn) -> None:
        assert turn.generate.echo
        turn.send(Accepted(turn.generate.request, PROMPT, "Once"))
        turn.say(" upon", 1)
        turn.finish()

    cluster = await start(echo)
    lines = await _lines(cluster, "/v1/completions", prompt="Once", echo=True)
    texts = [orjson.loads(line[6:])["choices"][0]["text"] for line in lines[:-1]]
    assert texts == ["Once", " upon", ""]


async def test_an_answer_that_repeated_itself_says_so_as_vllm_does_where_clients_do_not_check(
    start: Start,
) -> None:
    async def repeat(turn: Turn) -> None:
        turn.accept()
        turn.say("again ", 1)
        turn.finish_as(Finished("", "stop", 3, 1, repeated=True))

    cluster = await start(repeat)
    for path, body in (("chat/completions", {"messages": HELLO}), ("completions", {"prompt": "Once"})):
        for stream in (False, True):
            asked = {"model": "llama", "stream": stream, **body}
            async with cluster.http.post(cluster.url(f"/v1/{path}"), json=asked) as answer:
                assert b'"finish_reason":"stop","stop_reason":"repetition_detected"' in await answer.read()
    await cluster.until_sample(
        'vllm:request_success_total{finished_reason="repetition",model_name="llama"}', 4
    )
