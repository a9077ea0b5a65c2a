"""The condition of the endpoint's certificate, with the steps for a person."""

from __future__ import annotations

from datetime import UTC, datetime

from reconciler.errors import few_names
from reconciler.resources.gateway import GatewayTls
from reconciler.resources.operation import written_moment
from reconciler.state import ServedCertificate
from reconciler.wire import objects

from .snapshots import ConditionState, Snapshots

TYPE = "CertificateProblem"
"""The type of the condition, which is true if a person has to act."""
_DAY = 24 * 3600.0
EXPIRES_SOON = ((7 * _DAY, "ExpiresWithin7Days"), (30 * _DAY, "ExpiresWithin30Days"))
"""Seconds before its end at which a person is told, once for each; the shortest first."""


def conditions(name: str, snapshots: Snapshots) -> tuple[ConditionState, ...]:
    """Return the condition of a Gateway's certificate; none for a Gateway that speaks plain HTTP.

    Its texts have dates and no counts of days, so that they do not change.
    """
    wanted, seen = snapshots.desired.gateway, snapshots.observed.gateway
    if wanted is None or wanted.metadata.name != name or wanted.spec.tls is None:
        return ()
    if seen is None or seen.certificate is None:
        return (ConditionState(TYPE, False, "NotSeenYet", ""),)
    return (_state(seen.certificate, wanted.spec.tls, snapshots.now),)


def steps(tls: GatewayTls) -> str:
    """Return the steps that a person takes for a certificate."""
    return (
        f"put a good certificate, with those that lead to its authority, into {tls.certificate} and its key into {tls.key}:"
        " the gateway reads them as soon as they change, and keeps its connections"
    )


def as_json(seen: ServedCertificate | None) -> objects.Certificate | None:
    if seen is None:
        return None
    expires = None if seen.expires_at is None else written_moment(int(seen.expires_at))
    return {"names": list(seen.names), "expires": expires, "problem": seen.problem or None}


def _state(seen: ServedCertificate, tls: GatewayTls, now: float) -> ConditionState:
    if seen.expires_at is None:
        text = f"nobody can connect: {seen.problem}"
        return ConditionState(TYPE, True, "CertificateUnusable", text, steps(tls))
    expires, names = seen.expires_at, few_names(seen.names) or "no name"
    what = f"the certificate for {names}"
    if expires <= now:
        text = f"{what} expired on {_date(expires)}, so that clients refuse it"
        return ConditionState(TYPE, True, "CertificateExpired", text, steps(tls))
    if seen.problem:
        text = f"{seen.problem}; {what} stays in use, until {_date(expires)}"
        return ConditionState(TYPE, True, "CertificateNotReplaced", text, steps(tls))
    for seconds, reason in EXPIRES_SOON:
        if expires - now <= seconds:
            return ConditionState(TYPE, True, reason, f"{what} expires on {_date(expires)}", steps(tls))
    return ConditionState(TYPE, False, "CertificateGood", f"{what} is good until {_date(expires)}")


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
