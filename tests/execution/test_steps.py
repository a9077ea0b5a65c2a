"""Steps carried out on scripted agents: what each asks for, and what is remembered of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import Deposed, Refused, Unreachable, Unwritable
from reconciler.execution import Tools
from reconciler.execution.handlers import carry_out, weights
from reconciler.execution.handlers.ranks import (
    CONTINUATIONS_KEPT,
    STOP_REPEATED_AFTER_SECONDS,
    STOPS_KEPT_SECONDS,
)
from reconciler.execution.hub import Hub
from reconciler.execution.runtimes import NEWS_SECONDS, Builder
from reconciler.resources import TokenRef
from reconciler.state import (
    Cause,
    ConfirmRepair,
    ContinueRank,
    DeploymentName,
    ForgetRank,
    NodeName,
    ProveGroup,
    Reboot,
    RebootNode,
    RepairNode,
    ReplicaId,
    RequestedStop,
    Step,
    StopRank,
    Symptom,
    Write,
)
from reconciler.state.machine.weights import FetchWeights, RemoveWeights
from reconciler.wire import node
from reconciler.wire.launch import RankId
from reconciler.wire.repair import Change, Repair
from reconciler.wire.repair import ConfirmRepair as ConfirmRequest
from reconciler.wire.weights import FetchSource
from tests.machines import LocalMachines

NODE, OTHER = NodeName("node-a"), NodeName("node-b")
REPLICA = ReplicaId(DeploymentName("llama"), 0)
RANK, NEXT = RankId("llama", 0, 1, 0), RankId("llama", 0, 2, 0)
TOKEN, LINK, SEQUENCE = 6, 3, 40
OUT = Change(("ifconfig", "bridge0", "deletem", "en3"), ("ifconfig", "bridge0", "addm", "en3"))
SYMPTOM = Symptom(Cause.STALLED, "no token for 60 s", 900.0)


@dataclass
class Cluster:
    """Agents that answer as a test says, and everything that was done, in order."""

    error: Exception | None = None
    """Raised instead of the answer of an agent, or of a machine."""
    unwritable: bool = False
    """True if the store cannot be written."""
    unreached: bool = False
    """True if agents cannot be connected to again."""
    now: float = 1000.0
    done: list[tuple[Any, ...]] = field(default_factory=list)
    token: int = TOKEN

    def link(self, name: NodeName) -> tuple[Any, int]:
        async def request(message: Any, **_: float) -> Any:
            self.done.append(("asked", name, message))
            if self.error is not None:
                raise self.error
            return node.Done(SEQUENCE)

        async def close() -> None:
            self.done.append(("closed", name))

        return type("Link", (), {"request": staticmethod(request), "close": staticmethod(close)}), LINK

    def look(self, name: NodeName) -> None:
        self.done.append(("looked", name))

    async def renew_link(self, name: NodeName) -> None:
        self.done.append(("renewed", name))

    async def reach(self, name: NodeName, starts: bool = True) -> None:
        self.done.append(("reached", name, starts))
        if self.unreached:
            raise Unreachable(name)

    def renew(self) -> None:
        self.done.append(("next token",))
        if self.unwritable:
            raise Unwritable("the disk is full")

    def tools(self, **machines: Any) -> Tools:
        """Of this cluster; what is noted in the store is a part of ``done``."""

        def noted(what: str) -> Callable[..., None]:
            return lambda *given: self.done.append((what, *given))

        store: Any = type("Store", (), {"token": self.token, "renew": staticmethod(self.renew)})
        for name in ("prove", "note_reboot", "drop_reboot"):
            setattr(store, name, staticmethod(noted(name)))
        links: Any = type(
            "Links",
            (),
            {
                "link": staticmethod(self.link),
                "look": staticmethod(self.look),
                "renew": staticmethod(self.renew_link),
                "reach": staticmethod(self.reach),
            },
        )
        return Tools(
            store, links, LocalMachines(**machines), lambda: self.now, Hub({"HF_ENDPOINT": "http://hub"})
        )


def asked(cluster: Cluster) -> list[Any]:
    """List the requests that agents got."""
    return [each[-1] for each in cluster.done if each[0] == "asked"]


CHANGES: list[tuple[Step, Any]] = [
    (StopRank(REPLICA, NODE, RANK, 5.0, "test"), node.StopRank(TOKEN, RANK, 5.0)),
    (ContinueRank(REPLICA, NODE, RANK), node.ContinueRank(TOKEN, RANK)),
    (ForgetRank(REPLICA, NODE, RANK), node.ForgetRank(TOKEN, RANK, False)),
    (ForgetRank(REPLICA, NODE, RANK, keep_record=True), node.ForgetRank(TOKEN, RANK, True)),
    (ConfirmRepair(NODE, "r1"), ConfirmRequest(TOKEN, "r1")),
    (RemoveWeights(NODE, "org/tiny", 1), node.RemoveWeights(TOKEN, "org/tiny")),
]


@pytest.mark.parametrize(("step", "request_"), CHANGES, ids=lambda each: type(each).__name__)
async def test_a_change_is_asked_for_once_and_believed_of_what_is_seen_from_then_on(
    step: Step, request_: Any
) -> None:
    cluster = Cluster()
    tools = cluster.tools()
    await carry_out(step, tools)
    assert cluster.done == [("asked", NODE, request_), ("looked", NODE)]
    assert tools.volatile.writes == {NODE: Write(LINK, SEQUENCE)}


@pytest.mark.parametrize("unwritable", [False, True])
@pytest.mark.parametrize(("step", "request_"), CHANGES, ids=lambda each: type(each).__name__)
async def test_a_change_without_an_answer_may_be_made_until_a_later_token_is_seen(
    step: Step, request_: Any, unwritable: bool
) -> None:
    cluster = Cluster(error=Unreachable("no answer"), unwritable=unwritable)
    tools = cluster.tools()
    with pytest.raises(Unreachable, match="no answer"):
        await carry_out(step, tools)
    assert cluster.done == [("asked", NODE, request_), ("next token",), ("closed", NODE)]
    assert tools.volatile.writes == {NODE: Write(LINK + 1, 0)}
    assert not tools.volatile.stops
    assert not tools.volatile.repaired


@pytest.mark.parametrize(
    ("code", "tokens", "ends"), [("Fenced", 1, True), ("Fenced", 2, False), ("NotFound", 1, False)]
)
async def test_only_who_is_refused_for_its_own_token_is_deposed(code: str, tokens: int, ends: bool) -> None:
    """A token that was renewed meanwhile is newer than that of the request."""
    cluster = Cluster()
    tools = cluster.tools()

    async def request(message: Any, **_: float) -> Any:
        setattr(tools.groups, "token", TOKEN + tokens - 1)  # noqa: B010
        raise Refused(code, "token 6 is older than 7")

    link: Any = type("Link", (), {"request": staticmethod(request)})
    links: Any = tools.links
    links.link = lambda _: (link, LINK)
    with pytest.raises(Deposed if ends else Refused, match="token 6 is older than 7"):
        await carry_out(ContinueRank(REPLICA, NODE, RANK), tools)
    assert tools.volatile.writes == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["stop", "forget", "continue"]),
            st.sampled_from([RANK, NEXT]),
            st.integers(0, 400),
        ),
        max_size=30,
    )
)
def test_what_is_remembered_of_ranks_is_what_was_asked_of_those_that_are_there(
    acts: list[tuple[str, RankId, int]],
) -> None:
    """Compared with a list of all that was asked."""
    cluster = Cluster()
    tools = cluster.tools()
    stops: dict[RankId, RequestedStop] = {}
    continued: dict[RankId, list[float]] = {}

    async def act(kind: str, id: RankId) -> None:
        if kind == "stop":
            await carry_out(StopRank(REPLICA, NODE, id, 5.0, "test", SYMPTOM), tools)
        elif kind == "forget":
            await carry_out(ForgetRank(REPLICA, NODE, id), tools)
        else:
            await carry_out(ContinueRank(REPLICA, NODE, id), tools)

    async def all_of_them() -> None:
        nonlocal stops
        for kind, id, seconds in acts:
            cluster.now += seconds
            await act(kind, id)
            if kind == "stop":
                stops = {
                    each: stop
                    for each, stop in stops.items()
                    if cluster.now - stop.void_at < STOPS_KEPT_SECONDS
                }
                gone_by = cluster.now + 5.0
                stops[id] = RequestedStop(gone_by, gone_by + STOP_REPEATED_AFTER_SECONDS, SYMPTOM)
            elif kind == "forget":
                stops.pop(id, None)
                continued.pop(id, None)
            else:
                continued.setdefault(id, []).append(cluster.now)
            assert tools.volatile.stops == stops
            assert tools.volatile.continued == {
                each: tuple(times[-CONTINUATIONS_KEPT:]) for each, times in continued.items()
            }

    asyncio.run(all_of_them())


@pytest.mark.parametrize(
    ("moved", "told"),
    [("", "answered in 1.2 s"), ("a → b", "answered in 1.2 s; weights moved a → b, not served for 100.0 s")],
)
async def test_a_group_is_proven_at_the_time_of_its_answer(moved: str, told: str) -> None:
    cluster = Cluster()

    async def complete(name: NodeName, socket: str) -> float:
        cluster.now += 50
        cluster.done.append(("completion", name, socket))
        return 1.23

    tools = cluster.tools(request_completion=complete)
    step = ProveGroup(REPLICA, 7, NODE, "/run/r.sock", moved, since=950.0)
    assert await carry_out(step, tools) == told
    assert cluster.done == [("completion", NODE, "/run/r.sock"), ("prove", REPLICA, 7, 1050.0, "", None)]


REBOOT = Reboot(1000.0, "boot", "its GPU")


@pytest.mark.parametrize(
    ("error", "on_request", "after"),
    [
        (None, False, []),
        (Unreachable("it went away"), False, []),
        (Refused("NotAllowed", "sudo"), False, [("drop_reboot", NODE)]),
        (Refused("NotAllowed", "sudo"), True, [("note_reboot", NODE, replace(REBOOT, requested=False))]),
    ],
)
async def test_a_restart_is_noted_before_it_is_asked_for_and_forgotten_where_it_is_refused(
    error: Exception | None, on_request: bool, after: list[Any]
) -> None:
    cluster = Cluster()

    async def reboot(name: NodeName) -> None:
        cluster.done.append(("reboot", name))
        if error is not None:
            raise error

    tools, step = cluster.tools(reboot=reboot), RebootNode(NODE, REBOOT, on_request)
    if error is None:
        await carry_out(step, tools)
    else:
        with pytest.raises(type(error)):
            await carry_out(step, tools)
    assert cluster.done == [("note_reboot", NODE, REBOOT), ("reboot", NODE), *after]


@pytest.mark.parametrize("unreached", [False, True])
@pytest.mark.parametrize(
    "error",
    [None, Unreachable("no answer"), Refused("NotAllowed", "sudo")],
    ids=["done", "no answer", "refused"],
)
async def test_after_a_repair_the_machine_is_connected_to_anew_whatever_came_of_it(
    error: Exception | None, unreached: bool
) -> None:
    cluster = Cluster(error=error, unreached=unreached, unwritable=unreached)
    tools, step = cluster.tools(), RepairNode(NODE, "r1", "boot", (OUT,), "en3 is a member of bridge0")
    if error is None:
        await carry_out(step, tools)
    else:
        with pytest.raises(type(error)):
            await carry_out(step, tools)
    lost = [("next token",)] if isinstance(error, Unreachable) else []
    request = Repair(TOKEN, "r1", "boot", (OUT,))
    anew = [("renewed", NODE), ("reached", NODE, False)]
    assert cluster.done == [("asked", NODE, request), *lost, *anew]
    assert tools.volatile.writes == {NODE: Write(LINK + 1, 0)}


@pytest.mark.parametrize("code", ["SameConnection", "NotFound"])
async def test_a_repair_that_is_not_confirmed_has_not_been_made(code: str) -> None:
    cluster = Cluster(error=Refused(code, "no"))
    tools = cluster.tools()
    with pytest.raises(Refused):
        await carry_out(ConfirmRepair(NODE, "r1"), tools)
    assert cluster.done[1:] == (
        [("renewed", NODE), ("reached", NODE, False)] if code == "SameConnection" else []
    )
    assert not tools.volatile.repaired
    cluster.error = None
    await carry_out(ConfirmRepair(NODE, "r1"), tools)
    assert tools.volatile.repaired == {NODE: 1000.0}


@pytest.mark.parametrize("only", [None, ("f1",)])
@pytest.mark.parametrize("origin", [None, OTHER])
async def test_weights_are_fetched_from_the_hub_or_carried_from_another_node(
    monkeypatch: pytest.MonkeyPatch, origin: NodeName | None, only: tuple[str, ...] | None
) -> None:
    cluster, carried = Cluster(), list[Any]()

    async def carry(stream: object, one: object, other: object) -> None:
        carried.append((one, other))

    async def stream(*_: object) -> None: ...

    monkeypatch.setattr(weights, "carry", carry)
    monkeypatch.setenv("TOKEN_OF_HUB", "of the process, and not of its environment")
    tools = cluster.tools(stream=stream)
    tools.hub = Hub({"HF_ENDPOINT": "http://hub", "TOKEN_OF_HUB": "secret"})
    source = FetchSource("org/tiny", "a" * 40)
    ref = TokenRef(env="TOKEN_OF_HUB")
    step = FetchWeights("tiny", NODE, "p", source, ref, "1/1", origin, ("/give", "/take"), only)
    await carry_out(step, tools)
    there = replace(source, endpoint="http://hub")
    if origin is None:
        assert asked(cluster) == [node.FetchWeights(TOKEN, "p", there, "1/1", secret="secret", only=only)]
        assert carried == []
    else:
        assert asked(cluster) == [
            node.GiveWeights(TOKEN, "p"),
            node.FetchWeights(TOKEN, "p", there, "1/1", from_peer=True, only=only),
        ]
        assert [each[1] for each in cluster.done if each[0] == "asked"] == [OTHER, NODE]
        assert carried == [((OTHER, "/give"), (NODE, "/take"))]


async def test_progress_of_a_runtime_is_known_while_it_is_built_and_told_from_time_to_time() -> None:
    now, told, known = [1000.0], list[float](), list[Any]()

    async def build(name: NodeName, tell: Callable[[str], None]) -> str:
        for seconds in (0.0, 1.0, NEWS_SECONDS, 1.0, -5.0):
            now[0] += seconds
            tell(f"{now[0]:g}")
            known.append(dict(builder.known.progress))
        return "py-1"

    machines = LocalMachines(build_runtime=build)
    builder = Builder(machines, lambda: now[0], lambda: told.append(now[0]))
    assert await builder.build(NODE) == "runtime py-1"
    assert told == [1000.0, 1003.0, 999.0]
    assert known == [{NODE: text} for text in ("1000", "1001", "1003", "1004", "999")]
    assert (builder.known.built, builder.known.progress) == ({NODE: "py-1"}, {})


async def test_a_runtime_that_cannot_be_built_leaves_what_was_there_before() -> None:
    async def build(name: NodeName, tell: Callable[[str], None]) -> str:
        tell("downloading")
        raise Refused("Failed", "no disk")

    async def well(name: NodeName, tell: Callable[[str], None]) -> str:
        return "py-1"

    machines = LocalMachines(build_runtime=well)
    builder = Builder(machines, lambda: 0.0)
    await builder.build(NODE)
    machines.put(build_runtime=build)
    with pytest.raises(Refused):
        await builder.build(NODE)
    assert (builder.known.built, builder.known.progress) == ({NODE: "py-1"}, {})
