"""Messages to Notifiers: each once, in order, within bounds, beside the loop, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reconciler import status
from reconciler.controller.incident_log import IncidentLog
from reconciler.controller.notifications import ATTEMPTS_MAX, UNUSABLE_SECONDS, Notifications
from reconciler.outgoing.webhooks import Webhooks
from reconciler.state import Desired, FaultClass, Memory, Observed, Plan, Trouble, subjects
from reconciler.state.identity import ObjectKey
from reconciler.state.reports.notification import Delivery, Notification
from reconciler.status import Snapshots
from reconciler.store import Store, carry_over
from reconciler.store.tables.notifications import ENDED_KEPT, WAITING_MAX
from tests.outgoing.receiver import Receiver, receiver
from tests.worlds import node, notifier

NODE = ObjectKey("Node", "node-a")
PERSON = Trouble(
    NODE,
    subjects.read("node/node-a"),
    FaultClass.RDMA_DISABLED,
    "rdma is off",
    "",
    "start it in Recovery mode",
)
SECONDS_MAX = 60.0


class Office:
    """The notifications of one controller after the other, over one store and one clock."""

    def __init__(self, path: Path, hook: Receiver) -> None:
        self.path = path
        self.now = 1000.0
        self.environment = {"HOOK": hook.url}
        self.desired = self.wanting()
        self.begin()

    def wanting(self, **spec: Any) -> Desired:
        spec = {"webhook": {"urlFrom": {"env": "HOOK"}}, **spec}
        return Desired.of("r1", [node("node-a"), notifier(**spec)])

    def begin(self) -> None:
        self.store = Store(self.path)
        self.incident_log = IncidentLog(self.store, lambda: None)
        self.ended = asyncio.Event()
        self.notifications = Notifications(
            self.store, Webhooks(self.environment).post, lambda: self.now, lambda: self.ended.set()
        )

    async def crash(self) -> None:
        await self.notifications.close()
        self.store.close()
        self.begin()

    def look(self, *troubles: Trouble, after: float = 1.0) -> None:
        """A pass, without waiting for anything."""
        self.now += after
        observed, memory = Observed(), Memory(token=0)
        self.incident_log.follow(
            Snapshots(self.desired, observed, memory, Plan(troubles=troubles), self.now), {}
        )
        self.notifications.send_due(self.desired)

    async def deliver(self, after: float = 1.0) -> None:
        """Passes until nothing is being sent any more."""
        self.now += after
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                self.ended.clear()
                self.notifications.send_due(self.desired)
                if not self.notifications.busy:
                    return
                await self.ended.wait()

    def delivery(self) -> Delivery:
        return self.store.notifications.deliveries().get("on-call", Delivery())

    def put(self, *notices: Notification) -> None:
        self.store.put_incidents((), (), notices, self.now)


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture
def office(tmp_path: Path, hook: Receiver) -> Iterator[Office]:
    made = Office(tmp_path / "store.db", hook)
    yield made
    made.store.close()


def notice(number: int = 1, **fields: Any) -> Notification:
    return Notification(
        "on-call", number, "opened", **{"at": float(number), "text": f"text {number}", **fields}
    )


async def test_an_incident_is_reported_when_it_begins_when_a_person_is_needed_and_when_it_is_over(
    office: Office, hook: Receiver
) -> None:
    office.look(replace(PERSON, person=""))
    office.look(PERSON)
    office.look(PERSON)
    office.desired = Desired.of("r2", [notifier(webhook={"urlFrom": {"env": "HOOK"}})])
    office.look()
    await office.deliver()
    office.look(after=500)
    await office.deliver()
    assert hook.texts == [
        "[opened] node/node-a: RDMA disabled (C2): rdma is off; see: reconciler incidents 1",
        "[person needed] node/node-a: RDMA disabled (C2) needs a person: start it in Recovery mode; "
        "see: reconciler incidents 1",
        "[over] node/node-a: RDMA disabled (C2) is over after 3.0 s: node-a is no longer a node of this cluster; "
        "see: reconciler incidents 1",
    ]


async def test_nothing_is_sent_again_after_a_restart(office: Office, hook: Receiver) -> None:
    for _ in range(4):
        office.look(PERSON)
        await office.deliver()
        await office.crash()
        office.look(PERSON)
        await office.deliver()
    assert len(hook.texts) == 2


async def test_one_that_was_not_marked_when_the_controller_was_killed_is_sent_once_more(
    office: Office, hook: Receiver
) -> None:
    hook.speaks.clear()
    office.put(notice())
    office.notifications.send_due(office.desired)
    assert await asyncio.to_thread(hook.requested.wait, SECONDS_MAX)
    await office.crash()
    hook.speaks.set()
    await office.deliver()
    await office.crash()
    await office.deliver()
    assert len(hook.paths) == 2
    assert office.delivery().waiting == 0


async def test_only_what_is_asked_for_is_sent(office: Office, hook: Receiver) -> None:
    office.desired = office.wanting(tell=["personNeeded"])
    office.look(PERSON)
    await office.deliver()
    assert [text.partition("]")[0] for text in hook.texts] == ["[person needed"]


async def test_a_failed_delivery_is_tried_again_with_growing_pauses_and_then_given_up(
    office: Office, hook: Receiver
) -> None:
    hook.statuses = [500] * 50
    office.put(notice(), notice(2))
    pauses = []
    for _ in range(ATTEMPTS_MAX):
        await office.deliver(after=0.0)
        waiting = office.store.notifications.next("on-call")
        assert waiting is not None
        if waiting.incident == 1:
            pauses.append(waiting.retry_at - office.now)
            await office.deliver(after=0.0)
            assert len(hook.paths) == len(pauses), "it is tried before its time"
            office.now = waiting.retry_at
    assert pauses == [2.0, 10.0, 60.0, 300.0, 900.0]
    assert office.delivery().given_up == 1
    hook.statuses = []
    await office.deliver(after=10.0)
    assert hook.texts == ["text 2"]


async def test_what_is_wrong_with_a_notifier_is_its_condition_and_holds_no_secret(
    office: Office, hook: Receiver
) -> None:
    def ready() -> tuple[bool, str, str]:
        memory = Memory(token=0, deliveries=office.store.notifications.deliveries())
        found = status.statuses(Snapshots(office.desired, Observed(), memory, Plan(), office.now), {})
        condition = found[ObjectKey("Notifier", "on-call")].condition("Ready")
        assert condition is not None
        return condition.status, condition.reason, condition.message

    assert ready() == (True, "NothingSent", "no message was due yet")
    hook.statuses = [404]
    office.put(notice())
    await office.deliver()
    assert ready() == (False, "DeliveryFailed", "the last delivery failed: it answered with 404")
    await office.deliver(after=5)
    assert ready() == (True, "Delivered", "the last message was delivered")
    del office.environment["HOOK"]
    office.put(notice(2))
    await office.deliver()
    assert ready()[:2] == (False, "DeliveryFailed")
    assert "has no HOOK; set it" in ready()[2]
    assert "s3cret" not in str(ready())


async def test_a_url_that_cannot_be_used_costs_no_attempt_and_what_waits_is_sent_when_it_can(
    office: Office, hook: Receiver
) -> None:
    url = office.environment.pop("HOOK")
    office.put(notice())
    for _ in range(3 * ATTEMPTS_MAX):
        await office.deliver(after=UNUSABLE_SECONDS)
    assert office.delivery().waiting == 1
    office.environment["HOOK"] = url
    hook.statuses = [500]
    await office.deliver(after=UNUSABLE_SECONDS)
    tried = office.store.notifications.next("on-call")
    assert tried is not None
    assert tried.attempts == 1
    await office.deliver(after=UNUSABLE_SECONDS)
    assert hook.texts == ["text 1"]


async def test_a_pass_does_not_wait_for_a_webhook_that_does_not_answer(
    office: Office, hook: Receiver
) -> None:
    hook.speaks.clear()
    for _ in range(20):
        office.look(PERSON)
        await asyncio.sleep(0)
    assert office.notifications.busy, "the first message is still on its way"
    assert hook.texts == []
    hook.speaks.set()
    await office.deliver()
    assert len(hook.texts) == 2


async def test_a_known_message_is_not_sent_again(office: Office, hook: Receiver) -> None:
    office.put(notice())
    await office.deliver()
    office.put(notice())
    await office.deliver()
    assert hook.texts == ["text 1"]


def test_the_queue_and_what_is_remembered_are_bounded(office: Office) -> None:
    office.put(*(notice(number) for number in range(1, WAITING_MAX + 101)))
    first = office.store.notifications.next("on-call")
    assert first is not None
    assert first.incident == 101, "the oldest are given up"
    assert office.delivery() == Delivery(
        WAITING_MAX, ENDED_KEPT, None, f"more than {WAITING_MAX} messages waited"
    )


async def test_with_a_notifier_go_its_messages(office: Office, hook: Receiver) -> None:
    office.put(notice(), replace(notice(2), notifier="gone"))
    office.notifications.send_due(replace(office.desired, revision=""))
    assert set(office.store.notifications.deliveries()) == {"on-call", "gone"}, (
        "the manifests were not read yet"
    )
    await office.deliver()
    assert set(office.store.notifications.deliveries()) == {"on-call"}
    assert hook.texts == ["text 1"]


async def test_a_restored_store_sends_nothing_of_its_time(
    tmp_path: Path, office: Office, hook: Receiver
) -> None:
    office.put(notice())
    office.store.close()
    carry_over(office.path, tmp_path / "none.db", ())
    office.begin()
    await office.deliver()
    assert hook.paths == []
    assert office.delivery().waiting == 0


async def test_what_the_disk_does_not_take_is_not_sent_twice(office: Office, hook: Receiver) -> None:
    office.put(notice())
    office.notifications.send_due(office.desired)
    office.store._db.execute("PRAGMA query_only = ON")
    for _ in range(5):
        await office.deliver()
    office.store._db.execute("PRAGMA query_only = OFF")
    await office.deliver()
    assert hook.texts == ["text 1"]
    assert office.delivery().sent_at is not None


async def test_webhooks_of_several_notifiers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with receiver() as slow, receiver() as quick:
        slow.speaks.clear()
        store = Store(tmp_path / "two.db")
        ended = asyncio.Event()
        notifications = Notifications(store, Webhooks({}).post, lambda: 5.0, ended.set)
        both = [
            notifier("a", webhook={"url": slow.url}),
            notifier("b", webhook={"url": quick.url}),
        ]
        store.put_incidents((), (), [replace(notice(), notifier=name) for name in ("a", "b")], 5.0)
        notifications.send_due(Desired.of("r1", both))
        async with asyncio.timeout(SECONDS_MAX):
            await ended.wait()
        assert (quick.texts, slow.texts) == (["text 1"], [])
        slow.speaks.set()
        await notifications.close()
        store.close()


async def test_what_crashes_while_it_is_sent_is_counted_as_an_attempt(office: Office) -> None:
    office.put(notice())
    for attempts in (1, 2):
        office.now += 1.0
        office.notifications.send_due(office.desired)
        assert office.notifications.busy
        await office.crash()
        (waiting,) = [office.store.notifications.next("on-call")]
        assert waiting is not None
        assert waiting.attempts == attempts


@pytest.mark.parametrize("ahead", [3600.0, 86_400.0, 365 * 86_400.0])
async def test_a_message_that_failed_by_a_clock_that_was_ahead_is_sent_when_it_is_right(
    office: Office, hook: Receiver, ahead: float
) -> None:
    office.put(notice(attempts=1, retry_at=office.now + ahead, problem="refused"))
    await office.deliver()
    assert hook.texts == ["text 1"]
