"""Answers ``wire.figures.ShowSeries``: the cluster's own metrics as they are now."""

from __future__ import annotations

from dataclasses import replace

from reconciler import __version__
from reconciler.controller.mirror.following import Following
from reconciler.controller.parts import Parts
from reconciler.state import Observed
from reconciler.status.series import FAMILIES, View
from reconciler.wire import answers

from .bodies import lasting


def body(parts: Parts, following: Following | None) -> answers.MetricFamilies:
    """Return the answer. It uses the newest reports, because not every report causes a pass."""
    last = parts.last
    newest = replace(last, observed=Observed(parts.collector.nodes(), last.observed.gateway))
    view = View(
        newest,
        parts.publisher.statuses,
        parts.publisher.incident_log.open,
        [each.spec.verb for each in lasting(last)],
        *_source(following),
        version=__version__,
    )
    return {
        "families": [
            {"name": each.name, "text": each.text, "labels": list(each.labels), "series": each.series(view)}
            for each in FAMILIES
        ]
    }


def _source(following: Following | None) -> tuple[bool | None, float | None]:
    """Return whether the remote repository answered the last look, and when it last answered."""
    standing = following.standing if following is not None else None
    if following is not None and following.complaint:
        return False, standing.answered_at if standing is not None else None
    if standing is None or not standing.looks:
        return None, None
    return not standing.failures, standing.answered_at
