"""What was read once is not read again, and answers are the same as without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache

from reconciler.runner.decode import pacing
from reconciler.runner.decode.batch import Batch
from reconciler.runner.decode.reuse import WORTH_WAITING
from reconciler.runner.model.adapter import Loaded
from reconciler.runner.model.caches import ANY, EXACT, NOT, footprint
from reconciler.runner.model.files import inspect
from reconciler.runner.model.generator import Generator
from reconciler.runner.model.loading import load_shard
from reconciler.runner.process.progress import ProgressPipe
from reconciler.wire.generation import Finished, KeptPrefixes
from reconciler.wire.group import Insertion, Prefix, Reading, Step
from reconciler.wire.launch import ExitCode, RankEnd
from reconciler.wire.sampling import Sampling
from tests.runner.model.architectures import write_architecture
from tests.runner.ranks import GREEDY, Reply

from .loop import ALONE, Loop, prefix_bytes

ROOM = 1 << 24
KINDS = {"qwen3": ANY, "deepseek_v3": ANY, "gpt_oss": EXACT, "qwen3_next": EXACT, "falcon_h1": EXACT}
DRAWN = Sampling(temperature=1.0, seed=5)
END = 0


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    found = {}
    for kind in KINDS:
        folder = write_architecture(tmp_path_factory.mktemp(kind), kind, max_position_embeddings=2048)
        loaded = found[kind] = load_shard(inspect(str(folder)), None, "tensor", trust_remote_code=False)
        mx.eval(loaded.model(mx.array([[5]])))  # what it computes once, in the thread that made it
    return found


def words(number: int, length: int) -> list[int]:
    """Tokens that repeat nowhere else."""
    return [2 + (number * 37 + at * 11) % 250 for at in range(length)]


def turns(loaded: Loaded, room: int, sampling: Sampling) -> tuple[list[list[int]], list[int]]:
    """Four turns of a conversation: its answers, and how many tokens of each prompt were not read."""
    loop = Loop(loaded, prefix_bytes=room)
    prompt = [*words(1, 60), END]
    answers, cached = [], []
    with loop.serving():
        for turn in range(4):
            prompt += [*words(2 + turn, 20), END, *words(9, 3)]
            reply = loop.ask(str(turn), prompt, tokens_max=8, sampling=sampling)
            answers.append(reply.tokens)
            cached.append(reply.last.cached_tokens)
            prompt = prompt + reply.tokens + [END]
    return answers, cached


@pytest.mark.second_tier
@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "seeded"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_reads_what_is_new_and_the_answer_is_the_same(
    models: dict[str, Loaded], kind: str, sampling: Sampling
) -> None:
    assert footprint(models[kind].model, None).reuse == KINDS[kind]
    read, none = turns(models[kind], 0, sampling)
    answers, cached = turns(models[kind], ROOM, sampling)
    assert answers == read
    assert none == [0, 0, 0, 0]
    assert cached == [0, 93, 126, 159], "all but what came after the answer"


def test_what_an_entry_was_cut_from_and_who_reuses_it_do_not_change_it(models: dict[str, Loaded]) -> None:
    loop = Loop(models["qwen3"], prefix_bytes=ROOM)
    with loop.serving():
        first = loop.ask("a", words(1, 100), tokens_max=6)
        for name in "bcd":
            again = loop.ask(name, words(1, 100), tokens_max=6)
            assert (again.tokens, again.last.cached_tokens) == (first.tokens, 99)
        other = loop.ask("e", words(1, 50) + words(2, 50), tokens_max=6)
    assert other.last.cached_tokens == 50
    assert other.tokens == _alone(models["qwen3"], words(1, 50) + words(2, 50))


@pytest.mark.parametrize("kind", KINDS)
def test_of_equal_prompts_that_come_together_one_is_read(models: dict[str, Loaded], kind: str) -> None:
    prompt = words(1, 150)
    expected = _alone(models[kind], prompt)
    loop = Loop(models[kind], prefix_bytes=ROOM)
    for name in "abcd":
        loop.put(name, prompt=prompt, tokens_max=6)
    loop.put("other", prompt=words(7, 30), tokens_max=6)
    loop.run()
    replies = {name: Reply(events) for name, events in loop.events.items()}
    assert [replies[name].tokens for name in "abcd"] == [expected] * 4
    assert [replies[name].last.cached_tokens for name in "abcd"] == [0, 149, 149, 149]
    assert len(loop.steps[0].insert) == 2, "the other one does not wait for them"


@pytest.mark.parametrize("kind", [kind for kind, reuse in KINDS.items() if reuse == EXACT])
def test_prompts_are_cut_where_earlier_ones_began_like_them(models: dict[str, Loaded], kind: str) -> None:
    loop = Loop(models[kind], prefix_bytes=ROOM)
    cached = []
    with loop.serving():
        for number in range(3):
            prompt = words(1, 60) + words(2 + number, 30)
            reply = loop.ask(str(number), prompt, tokens_max=6)
            cached.append(reply.last.cached_tokens)
            assert reply.tokens == _alone(models[kind], prompt)
    assert cached == [0, 0, 60]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_read_for_a_request_that_was_cancelled_is_of_use(
    models: dict[str, Loaded], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is being read, and while it is answered."""
    monkeypatch.setattr(pacing, "PIECE_TOKENS_MAX", 100)
    prompt = [*words(1, 150), END, *words(2, 10)]
    expected = _alone(models[kind], [*prompt, 7])
    for step in (1, 4):
        loop = Loop(models[kind], prefix_bytes=ROOM)
        loop.cancelled_at = step
        with loop.serving():
            loop.put("a", prompt=prompt, tokens_max=20)
            assert loop.reply("a").last.reason == "cancelled"
            reply = loop.ask("b", [*prompt, 7], tokens_max=6)
        assert reply.tokens == expected
        assert reply.last.cached_tokens >= WORTH_WAITING


BOUNDS = {"nothing": 0.0, "a quarter of a conversation": 0.25, "ten conversations": 10.0}


@pytest.fixture(scope="module")
def twelve(models: dict[str, Loaded]) -> list[list[int]]:
    """What the model answers to ``words(number, 90)`` when it reads everything anew for each token."""
    prompts = [words(number, 90) for number in range(12)]
    answers: list[list[int]] = [[] for _ in prompts]
    for _ in range(10):
        logits = models["qwen3"].model(mx.array([p + said for p, said in zip(prompts, answers, strict=True)]))
        chosen: Any = mx.argmax(logits[:, -1], axis=-1).tolist()
        for said, token in zip(answers, chosen, strict=True):
            said.append(token)
    return answers


@pytest.mark.second_tier
@pytest.mark.parametrize("conversations", BOUNDS.values(), ids=BOUNDS)
def test_of_twelve_conversations_as_many_stay_as_there_is_room_for(
    models: dict[str, Loaded], twelve: list[list[int]], conversations: float
) -> None:
    """Each is asked again: first those that stayed, then the others, each of which takes the place of one."""
    measure = footprint(models["qwen3"].model, None)
    size = int(conversations * measure.bytes(100))
    length = min(100, measure.fitting(size)) if size else 0
    room = size // measure.bytes(length) if length else 0
    loop = Loop(models["qwen3"], prefix_bytes=size)
    with loop.serving():
        for number, answer in enumerate(twelve):
            reply = loop.ask(f"first {number}", words(number, 90), tokens_max=10)
            assert (reply.tokens, reply.last.cached_tokens) == (answer, 0)
            count = min(room, number + 1)
            evicted = number + 1 - count if room else 0
            assert reply.last.prefix_cache == KeptPrefixes(
                count * measure.bytes(length), size, count, evicted
            )
            assert prefix_bytes(loop.batch) <= size
        stayed = {name.uid for name in loop.prefixes.names}
        for number in sorted(range(12), key=lambda number: number not in stayed):
            reply = loop.ask(f"again {number}", words(number, 90), tokens_max=10)
            found = min(length, 89) if number in stayed else 0
            assert (reply.tokens, reply.last.cached_tokens) == (twelve[number], found)
    assert len(stayed) == room
    evicted = 2 * (12 - room) if room else 0
    assert reply.last.prefix_cache == KeptPrefixes(room * measure.bytes(length), size, room, evicted)


@pytest.mark.parametrize("kind", ["qwen3", "gpt_oss"])
def test_of_a_conversation_larger_than_the_bound_its_beginning_is_found_if_that_can_be_used(
    models: dict[str, Loaded], kind: str
) -> None:
    measure = footprint(models[kind].model, None)
    size = measure.bytes(192) // 4
    answers, cached = turns(models[kind], size, GREEDY)
    assert answers == turns(models[kind], 0, GREEDY)[0]
    found = measure.fitting(size) if measure.reuse == ANY else 0
    assert cached == [0, found, found, found]


def test_a_request_that_waits_takes_the_place_of_one_that_has_ended_although_nothing_can_be_kept(
    models: dict[str, Loaded],
) -> None:
    loop = Loop(models["qwen3"], batch_max=2)
    for name in "abcde":
        loop.put(name, prompt=words(1, 200), tokens_max=4)
    loop.run()
    assert all(isinstance(events[-1], Finished) for events in loop.events.values())
    assert all(step.keep == step.forget == () for step in loop.steps)


def _alone(loaded: Loaded, prompt: Sequence[int]) -> list[int]:
    loop = Loop(loaded)
    with loop.serving():
        return loop.ask("a", prompt, tokens_max=6).tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"forget": (Prefix(0, 50),)},
        {"keep": (Prefix(1, 10),)},
        {"keep": (Prefix(0, 500),)},
        {"insert": (Insertion((5,), 3, GREEDY, reuse=Prefix(0, 50), reused=20),)},
        {"insert": (Insertion((5,), 3, GREEDY, reused=20),)},
    ],
    ids=["forget", "keep-of-nobody", "keep-of-more", "reuse", "reuse-of-nothing"],
)
def test_a_rank_that_does_not_have_what_rank_0_thinks_ends(
    models: dict[str, Loaded], wrong: dict[str, Any]
) -> None:
    batch = Batch(Generator(models["qwen3"], ALONE, keeps=True), ProgressPipe(None))
    insertion = Insertion(tuple(words(1, 40)), 5, GREEDY)
    batch.run(Step(0, insert=(insertion,), read=(Reading((0,)),)))
    with pytest.raises(RankEnd, match="0 prefixes") as end:
        batch.run(Step(1, **wrong))
    assert end.value.code == ExitCode.DIVERGED


def test_an_entry_holds_no_more_memory_than_its_own(models: dict[str, Loaded]) -> None:
    for kind, loaded in models.items():
        batch = Batch(Generator(loaded, ALONE, keeps=True), ProgressPipe(None))
        insert = [Insertion(tuple(words(number, 100)), 3, GREEDY) for number in range(4)]
        batch.run(Step(0, insert=tuple(insert), read=(Reading((0, 1, 2, 3)),)))
        while batch.live:
            batch.run(Step(batch.next_step))
        names = tuple(Prefix(uid, 103) for uid in range(4))
        batch.run(Step(batch.next_step, keep=names[:2]))
        expected = footprint(loaded.model, None).bytes(103)
        assert prefix_bytes(batch) == pytest.approx(2 * expected, rel=0.02), kind
        batch.run(Step(batch.next_step, forget=names[:2]))
        assert prefix_bytes(batch) == 0


def test_a_cache_of_an_unknown_kind_is_told_as_not_to_be_kept(models: dict[str, Loaded]) -> None:
    model: Any = models["qwen3"].model

    class Other(KVCache):  # type: ignore[misc]
        pass

    model.make_cache = lambda: [KVCache(), Other()] * 2
    try:
        assert footprint(model, None).reuse == NOT
    finally:
        del model.make_cache
