"""Sends messages to Notifiers, beside the loop: healing never waits for it.

A message is written to the store together with what it tells of, counted there before each attempt, and marked
after it was taken. Who crashes between the two sends it once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from reconciler.errors import Deposed, Invalid, ReconcilerError, Unwritable
from reconciler.resources import Webhook
from reconciler.state import Desired
from reconciler.state.reports.notification import Notice
from reconciler.store import Store

ATTEMPTS_MAX = 6
RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0, 900.0)
"""After the first attempt, the second, and so on."""
UNUSABLE_SECONDS = 60.0
"""Until a URL that could not be used is looked for again."""

Post = Callable[[Webhook, str], Awaitable[None]]


class Notifications:
    """One message to each Notifier at a time, in their order."""

    def __init__(
        self, store: Store, post: Post, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._store = store
        self._post = post
        self._clock = clock
        self._changed = changed
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._unmarked: dict[tuple[str, int, str], Notice] = {}
        """What became of messages that the disk did not take yet: they are not sent again for that."""

    @property
    def busy(self) -> bool:
        """Whether a message is being sent now."""
        return bool(self._sending)

    def send_due(self, desired: Desired) -> None:
        """Begin to send what is due. Never waits."""
        if not desired.revision or desired.stopping:
            return
        self._mark()
        waiting = self._store.notices.deliveries()
        if waiting.keys() - desired.notifiers.keys():
            with suppress(Unwritable):
                self._store.notices.forget(desired.notifiers)
        for name, notifier in sorted(desired.notifiers.items()):
            if name in waiting and waiting[name].waiting and name not in self._sending:
                self._begin(name, notifier.spec.webhook)

    def _begin(self, name: str, webhook: Webhook) -> None:
        notice = self._store.notices.next(name)
        if notice is None or notice.retry_at > self._clock():
            return
        begun = replace(notice, attempts=notice.attempts + 1)
        try:
            self._store.notices.mark(begun)
        except Unwritable:
            return
        task = asyncio.create_task(self._send(begun, webhook), name=f"notify {name}")
        self._sending[name] = task
        task.add_done_callback(lambda _: self._ended(name))

    def _ended(self, name: str) -> None:
        del self._sending[name]
        self._changed()

    async def _send(self, notice: Notice, webhook: Webhook) -> None:
        try:
            await self._post(webhook, notice.text)
        except ReconcilerError as error:
            after = self._failed(notice, error)
        else:
            after = replace(notice, ended_at=self._clock(), problem="")
        self._unmarked[_key(after)] = after
        self._mark()

    def _mark(self) -> None:
        """Write down what became of messages, as far as the disk takes it and nobody else has taken over."""
        with suppress(Unwritable, Deposed):
            for key, notice in tuple(self._unmarked.items()):
                self._store.notices.mark(notice)
                del self._unmarked[key]

    def _failed(self, notice: Notice, error: ReconcilerError) -> Notice:
        """It is tried again a few times. Without a URL that can be used nothing was tried: somebody has to mend it."""
        now, problem = self._clock(), str(error)
        if isinstance(error, Invalid):
            attempts = notice.attempts - 1
            return replace(notice, attempts=attempts, retry_at=now + UNUSABLE_SECONDS, problem=problem)
        if notice.attempts >= ATTEMPTS_MAX:
            return replace(notice, ended_at=now, problem=f"{problem}; given up after {ATTEMPTS_MAX} attempts")
        return replace(notice, retry_at=now + RETRY_SECONDS[notice.attempts - 1], problem=problem)

    async def close(self) -> None:
        """Give up on what is being sent; the next controller sends it."""
        tasks = tuple(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(notice: Notice) -> tuple[str, int, str]:
    return notice.notifier, notice.incident, notice.occasion
