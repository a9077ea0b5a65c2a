"""The readiness of a Notifier: the result of the last delivery."""

from __future__ import annotations

from reconciler.state.reports.notification import Delivery
from reconciler.wire import objects

from .snapshots import Readiness, Snapshots


class _Fields(objects.DeliveryCounts):
    """As the store keeps them, with times in seconds since the Unix epoch."""

    sentAt: float | None  # noqa: N815 - a field of the wire


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    delivery = snapshots.memory.deliveries.get(name, Delivery())
    extra: _Fields = {"waiting": delivery.waiting, "givenUp": delivery.given_up, "sentAt": delivery.sent_at}
    if delivery.problem:
        return Readiness(False, "DeliveryFailed", f"the last delivery failed: {delivery.problem}", extra)
    if delivery.sent_at is None:
        return Readiness(True, "NothingSent", "no message was due yet", extra)
    return Readiness(True, "Delivered", "the last message was delivered", extra)
