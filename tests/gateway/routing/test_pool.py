"""Routes, connections and places for those who wait, without a server in front of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from reconciler.gateway.errors import ApiError
from reconciler.gateway.routing.connection import RankConnection, key_of
from reconciler.gateway.routing.pool import Pool
from reconciler.gateway.routing.run import Run
from reconciler.gateway.routing.suspects import STRONG, Prompt
from reconciler.gateway.routing.suspicion import Suspicion
from reconciler.wire.generation import Backend, Delta, Failed, Formed, Generate
from reconciler.wire.prompts import EndedGroup, QuarantinedPrompt
from tests.gateway.rank_double import Turn, eventually, story

from .conftest import TIMING, WALL, Home, reach, route


class Waiter:
    def __init__(self, pool: Pool) -> None:
        self.woken = 0
        self.suspicion = Suspicion(pool, Generate("", ()), "chat", "req")

    def wake(self) -> None:
        self.woken += 1


def run(pool: Pool, ring: asyncio.Event | None = None) -> Run:
    return Run(pool, "llama", Generate("", ()), "chat", (ring or asyncio.Event()).set)


async def test_the_routes_of_one_controller_follow_each_other_and_no_alias_takes_a_name(made: Home) -> None:
    made.write(route(model="llama"))
    assert made.file.refresh()
    assert not made.file.refresh()
    made.write(route(model="qwen", aliases=("llama", "gpt-4o")), route(model="llama"))
    assert made.file.refresh()
    names = {name: each.model for name, each in made.file.names().items()}
    assert names == {"qwen": "qwen", "llama": "llama", "gpt-4o": "qwen"}


async def test_what_came_before_a_failure_is_told_before_it(made: Home) -> None:
    async def play(turn: Turn) -> None:
        turn.send(
            Delta(turn.generate.request, (1,), "a word "),
            Failed(turn.generate.request, "context_length_exceeded", "too long"),
        )
        await turn.hang()

    made.write(route(await made.rank(play)))
    pool = made.pool()
    await eventually(lambda: pool.connected() == {"llama": 1})
    rung = asyncio.Event()
    with run(pool, rung) as asking:
        asking.next_look()
        await rung.wait()
        assert [type(each).__name__ for each in asking.answers()] == ["Delta"]
        with pytest.raises(ApiError):
            asking.answers()


async def test_a_rank_that_breaks_the_protocol_loses_its_connection(made: Home) -> None:
    async def play(turn: Turn) -> None:
        turn.send(turn.generate)  # no rank may say that
        await turn.hang()

    made.write(route(await made.rank(play)))
    pool = made.pool()
    await eventually(lambda: pool.connected() == {"llama": 1})
    with run(pool) as asking:
        asking.next_look()
        await eventually(lambda: made.ranks[0].connections > 1 or made.ranks[0].left)


async def test_a_connection_that_fails_late_leaves_the_one_that_works_alone(made: Home) -> None:
    backend = await made.rank(story(1))
    protocols: list[asyncio.Protocol] = []

    async def noting(to: Backend, protocol: asyncio.Protocol) -> None:
        protocols.append(protocol)
        await reach(to, protocol)

    link = RankConnection(backend, TIMING, noting, lambda: None)
    assert key_of(backend) == (None, backend.socket, 1)
    link.open(0.0)
    await eventually(lambda: link.ready)
    protocols[0].connection_lost(None)
    link.open(asyncio.get_running_loop().time())
    await eventually(lambda: link.ready)
    protocols[0].connection_lost(None)
    assert link.ready
    link.close()


async def test_whoever_has_waited_for_longest_is_woken_first(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    woken: list[int] = []

    class Numbered(Waiter):
        def __init__(self, number: int) -> None:
            super().__init__(pool)
            self.number = number

        def wake(self) -> None:
            woken.append(self.number)

    waiters = [Numbered(number) for number in range(50)]
    for waiter in waiters:
        pool.hold(waiter, started=True)
    pool.wake_held()
    assert woken == list(range(50))


async def test_the_prompts_that_are_refused_are_those_of_all_models(made: Home) -> None:
    made.write(route())
    ended = (EndedGroup(0, 1),)
    prompts = tuple(
        QuarantinedPrompt(model, digest, "req", "1 message", ended, WALL, WALL + left)
        for model, digest, left in (("llama", "a", 60.0), ("qwen", "b", 60.0), ("qwen", "c", 0.0))
    )
    pool = made.pool(*prompts)
    assert pool.quarantined_prompts() == prompts[:2], "the time of the last is over"


async def test_a_group_is_crowded_by_others_that_have_no_token_yet(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    first, second = Waiter(pool), Waiter(pool)
    pool.join(first)
    pool.join(second)
    first.suspicion.wait("llama", True, 0.0)
    first.suspicion.sent("chat.0", 0.0)
    assert pool.crowded("llama", second.suspicion)
    assert not pool.crowded("llama", first.suspicion), "nobody crowds itself"
    assert not pool.crowded("qwen", second.suspicion)
    first.suspicion.on_event(Delta("chat.0", (1,), "a"))
    assert not pool.crowded("llama", second.suspicion)


Points = tuple[tuple[Formed, ...], int, int | None]
ENDS: dict[str, Points] = {
    "nobody has said yet what it was": ((), 9, None),
    "its replica is not wanted any more": ((), 1, 0),
    "the next group was formed for a reason that no request is": ((Formed(1, 6, 0),), 9, 0),
    "it may have been a request": ((Formed(1, 6, 1),), 9, 1),
    "of several groups after it the first counts": ((Formed(1, 7, 2), Formed(1, 6, 1)), 9, 1),
    "an earlier group and one of another replica count for nothing": (
        (Formed(1, 5, 2), Formed(1, 4, 2), Formed(0, 6, 2)),
        9,
        None,
    ),
}


@pytest.mark.parametrize("why", ENDS)
async def test_how_much_the_end_of_a_group_points_to_a_request_is_what_the_routes_say(
    made: Home, why: str
) -> None:
    formed, replicas, points = ENDS[why]
    made.write(route())
    pool = made.pool()
    assert pool._suspicion(replace(route(), formed=formed, replicas=replicas), (1, 5)) == points
    assert pool._suspicion(None, (1, 5)) == 0, "nobody wants the model any more"


async def test_an_end_of_which_nothing_is_said_once_a_later_group_is_there_may_have_been_a_request(
    made: Home,
) -> None:
    made.write(route(await made.rank(epoch=6)))
    pool = made.pool()
    (of_model,) = pool.file.models().values()
    assert pool._suspicion(of_model, (0, 5)) == STRONG
    assert pool._suspicion(of_model, (0, 7)) is None
    assert pool._suspicion(of_model, (1, 5)) is None
    assert pool._suspicion(of_model, (0, 6)) is None, "it is not connected again yet"
    await eventually(lambda: pool.connected() == {"llama": 1})
    assert pool._suspicion(of_model, (0, 6)) == 0, "only the connection was lost"


async def test_a_prompt_is_refused_as_soon_as_new_routes_blame_it_for_two_ends(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    told: list[int] = []
    pool.quarantined = lambda: told.append(len(pool.quarantined_prompts()))
    for epoch in (1, 2):
        suspects = pool.suspects("llama")
        suspects.died((0, epoch), "chat", Prompt("bad", "req", "1 message"), False, 0.0)
    assert not pool.refresh()
    assert told == []
    made.write(replace(route(), formed=(Formed(0, 2, 2), Formed(0, 3, 2))))
    assert pool.refresh()
    assert told == [1]
    made.write(route())
    assert pool.refresh()
    assert told == [1], "nothing has changed for them"


async def test_the_group_with_the_fewest_requests_is_chosen_and_one_that_stands_still_last(
    made: Home,
) -> None:
    backends = [await made.rank(), await made.rank()]
    of_model = replace(route(*backends), stall_seconds=10.0)
    made.write(of_model)
    pool = made.pool()
    await eventually(lambda: pool.connected() == {"llama": 2})
    first, second = (pool._connections[key_of(backend)] for backend in backends)
    assert pool.choose(of_model, ()) is first
    assert pool.choose(of_model, {first}) is second
    assert pool.choose(of_model, {first, second}) is None
    first.submit(Generate("a.0", ()), run(pool))
    assert pool.choose(of_model, ()) is second
    for name in ("b.0", "c.0"):
        second.submit(Generate(name, ()), run(pool))
    assert pool.choose(of_model, ()) is first
    first.last_event_at -= 11.0
    assert pool.choose(of_model, ()) is second
    assert pool.choose(replace(of_model, stall_seconds=0.0), ()) is first, "nobody says what is too long"
    assert pool.choose(of_model, {second}) is first


async def test_another_group_may_be_chosen_where_one_is_there_or_is_being_connected(made: Home) -> None:
    of_model = route(await made.rank())
    made.write(of_model)
    pool = made.pool()
    (connection,) = pool._connections.values()
    assert connection.opening
    assert pool.may_choose(of_model, ())
    assert not pool.may_choose(of_model, {connection})
    await eventually(lambda: pool.connected() == {"llama": 1})
    assert pool.may_choose(of_model, ())
    assert not pool.may_choose(of_model, {connection})
    assert not pool.may_choose(route(), ())


async def test_when_the_next_attempt_is_made_matters_only_where_there_is_no_group(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    backend = Backend(0, 1, "/run/0.sock", "node-a", None)
    assert pool.limits(route()).attempt_in is None
    assert pool.limits(replace(route(), attempt_at=WALL + 5)).attempt_in == 5.0
    assert pool.limits(replace(route(), attempt_at=WALL - 5)).attempt_in == 0.0
    assert pool.limits(replace(route(backend), attempt_at=WALL + 5)).attempt_in is None
    refused = pool.limits(replace(route(), refused="NotEnoughMemory"))
    assert (refused.refused, refused.attempt_in) == ("NotEnoughMemory", None)
    assert pool.limits(replace(route(backend), refused="NotEnoughMemory")).refused == ""


async def test_a_request_waits_for_as_long_as_the_newest_routes_say(made: Home) -> None:
    backend = await made.rank()
    made.write(route(backend), hold_seconds=60.0)
    pool = made.pool()
    waiting, refused = replace(route(), attempt_at=WALL + 5), replace(route(), refused="NotEnoughMemory")
    for seconds in (60.0, 30.0, 30.0, 60.0):
        made.write(route(backend), hold_seconds=seconds)
        pool.refresh()
        limits = [pool.limits(each) for each in (None, route(), route(backend), waiting, refused)]
        assert [each.hold_seconds for each in limits] == [seconds] * 5
        assert all(each.timing is pool.timing for each in limits)
        assert pool.limits() is pool.limits(), "it is asked for with every token"


async def test_only_so_many_requests_that_have_no_answer_yet_are_held(made: Home) -> None:
    made.write(route(), hold_seconds=7.0)
    pool = made.pool()
    assert pool.hold_seconds == 7.0
    first, second = Waiter(pool), Waiter(pool)
    assert pool.hold(first, started=False)
    assert pool.hold(first, started=False), "it is held already"
    assert not pool.hold(second, started=False)
    assert pool.hold(second, started=True)
    pool.release(first)
    pool.wake_held()
    assert (first.woken, second.woken) == (0, 1)
    pool.leave(second)
    assert pool.hold(first, started=False)


async def test_while_a_request_is_held_routes_and_groups_are_looked_for_at_once(made: Home) -> None:
    made.write(route())
    pool = made.pool(timing=replace(TIMING, routes_idle=600.0))
    watching = asyncio.create_task(pool.watch())
    await asyncio.sleep(0.05)
    made.write(route(await made.rank()))
    await asyncio.sleep(0.05)
    assert pool.connected() == {"llama": 0}, "nobody waits"
    assert pool.hold(Waiter(pool), started=False)
    await eventually(lambda: pool.connected() == {"llama": 1})
    watching.cancel()


async def test_a_name_that_is_not_known_is_looked_for_in_the_file_once_more(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    changes: list[str] = []
    pool.replaced = lambda: changes.append("routes")
    held = Waiter(pool)
    pool.hold(held, started=False)
    assert pool.find("qwen") is None
    made.write(route(model="qwen", aliases=("gpt-4o",)))
    found = pool.find("gpt-4o")
    assert found is not None
    assert found.model == "qwen"
    assert list(pool.names()) == ["qwen", "gpt-4o"]
    assert (changes, held.woken) == (["routes"], 1)


async def test_a_backend_that_is_routed_to_no_more_is_left_and_one_that_stays_keeps_its_connection(
    made: Home,
) -> None:
    stays, goes = await made.rank(), await made.rank()
    made.write(route(stays, goes))
    pool = made.pool()
    await eventually(lambda: pool.connected() == {"llama": 2})
    kept, left = (pool._connections[key_of(backend)] for backend in (stays, goes))
    kept.draining = True
    made.write(route(stays))
    assert pool.refresh()
    assert list(pool._connections.values()) == [kept]
    assert kept.ready, "new routes name it again"
    assert left.withdrawn
    await eventually(lambda: made.ranks[1].left)
    assert made.ranks[0].connections == 1


async def test_when_the_gateway_closes_every_request_is_told(made: Home) -> None:
    made.write(route())
    pool = made.pool()
    answered, held, gone = (Waiter(pool) for _ in range(3))
    for each in (answered, held, gone):
        pool.join(each)
    pool.leave(gone)
    assert pool.hold(held, started=False)
    pool.close()
    assert [each.woken for each in (answered, held, gone)] == [1, 1, 0]
