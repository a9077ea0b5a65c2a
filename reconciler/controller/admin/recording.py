"""Records the facts that plans depend on, for a file that may leave the cluster."""

from __future__ import annotations

from reconciler import __version__
from reconciler.controller.parts import Parts
from reconciler.controller.reconcile import remember
from reconciler.facts.recorded import facts_of, written
from reconciler.state import Observed
from reconciler.wire import answers


def facts(parts: Parts) -> answers.FactsFile:
    """Return the facts that the next pass would plan with, for ``wire.admin.ShowFacts``."""
    desired = parts.desired_state.desired
    observed = Observed(parts.collector.nodes(), parts.around.gateway())
    in_force = tuple(sorted(parts.store.objects.keys()))
    operations = tuple(effect.operation for effect in desired.effects)
    found = facts_of(desired, observed, remember(parts), parts.clock(), in_force, operations)
    return written(found, desired, __version__)
