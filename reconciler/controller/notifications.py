"""Sends messages to Notifiers, concurrently with the loop: healing never waits for it.

A message is written to the store together with its occasion. Each attempt is counted before it begins, and marked
after it has succeeded. After a crash in between, the message is sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from reconciler.errors import Deposed, Invalid, ReconcilerError, Unwritable
from reconciler.resources import Webhook
from reconciler.state import Desired
from reconciler.state.reports.notification import Notification
from reconciler.store import Store
from reconciler.wire.clock import seconds_left

ATTEMPTS_MAX = 6
RETRY_SECONDS = (2.0, 10.0, 60.0, 300.0, 900.0)
"""Waits after the first attempt, the second, and so on."""
UNUSABLE_SECONDS = 60.0
"""Wait before an unusable URL is read again."""

Post = Callable[[Webhook, str], Awaitable[None]]


class Notifications:
    """Sends one message to each Notifier at a time, in order."""

    def __init__(
        self, store: Store, post: Post, clock: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._store = store
        self._post = post
        self._clock = clock
        self._changed = changed
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._unmarked: dict[tuple[str, int, str], Notification] = {}
        """Results that could not be written yet; their messages are not sent again."""

    @property
    def busy(self) -> bool:
        return bool(self._sending)

    def send_due(self, desired: Desired) -> None:
        """Begin to send due messages. Never waits."""
        if not desired.revision or desired.stopping:
            return
        self._mark()
        waiting = self._store.contents.read().deliveries
        if waiting.keys() - desired.notifiers.keys():
            with suppress(Unwritable):
                self._store.notifications.forget(desired.notifiers)
        for name, notifier in sorted(desired.notifiers.items()):
            if name in waiting and waiting[name].waiting and name not in self._sending:
                self._begin(name, notifier.spec.webhook)

    def _begin(self, name: str, webhook: Webhook) -> None:
        notification = self._store.notifications.next(name)
        if notification is None or seconds_left(notification.retry_at, self._clock(), max(RETRY_SECONDS)):
            return
        begun = replace(notification, attempts=notification.attempts + 1)
        try:
            self._store.notifications.mark(begun)
        except Unwritable:
            return
        task = asyncio.create_task(self._send(begun, webhook), name=f"notify {name}")
        self._sending[name] = task
        task.add_done_callback(lambda _: self._ended(name))

    def _ended(self, name: str) -> None:
        del self._sending[name]
        self._changed()

    async def _send(self, notification: Notification, webhook: Webhook) -> None:
        try:
            await self._post(webhook, notification.text)
        except ReconcilerError as error:
            after = self._failed(notification, error)
        else:
            after = replace(notification, ended_at=self._clock(), problem="")
        self._unmarked[_key(after)] = after
        self._mark()

    def _mark(self) -> None:
        """Write the results of messages, if the disk is writable and no other controller has taken over."""
        with suppress(Unwritable, Deposed):
            for key, notification in tuple(self._unmarked.items()):
                self._store.notifications.mark(notification)
                del self._unmarked[key]

    def _failed(self, notification: Notification, error: ReconcilerError) -> Notification:
        """Return the notification after a failure. It is retried a few times; an unusable URL does not count as an attempt."""
        now, problem = self._clock(), str(error)
        if isinstance(error, Invalid):
            attempts = notification.attempts - 1
            return replace(notification, attempts=attempts, retry_at=now + UNUSABLE_SECONDS, problem=problem)
        if notification.attempts >= ATTEMPTS_MAX:
            return replace(
                notification, ended_at=now, problem=f"{problem}; given up after {ATTEMPTS_MAX} attempts"
            )
        return replace(notification, retry_at=now + RETRY_SECONDS[notification.attempts - 1], problem=problem)

    async def close(self) -> None:
        """Stop sending; the next controller sends the rest."""
        tasks = tuple(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _key(notification: Notification) -> tuple[str, int, str]:
    return notification.notifier, notification.incident, notification.occasion
