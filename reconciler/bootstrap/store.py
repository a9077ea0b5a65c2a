"""Opens the store, and begins a new one if it is damaged or gone: the nodes know the rest."""

from __future__ import annotations

import logging

from reconciler.errors import Damaged
from reconciler.state.identity import CLUSTER
from reconciler.state.reports.status import Event
from reconciler.store import Store, set_aside

from .home import Home

log = logging.getLogger(__name__)

_CONSEQUENCES = (
    "a new store was begun: running groups are adopted, and epochs continue to grow; events, incidents, approvals and"
    " generations of before are lost. They are in a backup, if there is one: reconciler restore --force FILE"
)


def open_store(home: Home, now: float) -> Store:
    """Open the store as the only controller of the home, and report once if a new one had to be begun.

    Raises ``Invalid`` for a store of a newer version, ``Unwritable`` if nothing can be written now, and ``OSError`` if
    a damaged store cannot be moved. In these cases the store stays as it is.
    """
    try:
        store = Store(home.store)
    except Damaged as damage:
        kept = set_aside(home.store, now)
        log.error("%s; it is now %s, and a new store is begun", damage, kept)
        store = Store(home.store)
        store.outgrow(kept)
        _begin(home, store, now, "StoreDamaged", f"{damage}; it was moved to {kept}, and {_CONSEQUENCES}")
        return store
    if store.is_new:
        used = home.routes.exists() or bool(home.nodes_with_agents())
        _begin(home, store, now, "StoreLost", f"{home.store} was gone, and {_CONSEQUENCES}" if used else "")
    return store


def _begin(home: Home, store: Store, now: float, reason: str, text: str) -> None:
    """Note in a new store the nodes that may have an agent, and the fate of the previous store, if there was one."""
    for name in home.nodes_with_agents():
        store.keep_agent(name)
    if text:
        store.add_events([Event(now, CLUSTER, True, reason, text)])
