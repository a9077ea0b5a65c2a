"""The readiness of a Notifier: the result of the last delivery."""

from __future__ import annotations

from reconciler.state.reports.notification import Delivery

from .snapshots import Readiness, Snapshots


def readiness(name: str, snapshots: Snapshots) -> Readiness:
    delivery = snapshots.memory.deliveries.get(name, Delivery())
    extra = {"waiting": delivery.waiting, "givenUp": delivery.given_up, "sentAt": delivery.sent_at}
    if delivery.problem:
        return Readiness(False, "DeliveryFailed", f"the last delivery failed: {delivery.problem}", extra)
    if delivery.sent_at is None:
        return Readiness(True, "NothingSent", "no message was due yet", extra)
    return Readiness(True, "Delivered", "the last message was delivered", extra)
