"""The stored form of the facts that a group is formed under: a JSON object of texts such as ``studio-1/3 cable``."""

from __future__ import annotations

import json

from reconciler.state import NodeName
from reconciler.state.formed_under import Fact, Facts, in_order


def written(facts: Facts) -> str:
    """Return facts as text; empty for none."""
    values = {str(fact): value for fact, value in facts}
    return json.dumps(values, sort_keys=True, separators=(",", ":")) if values else ""


def read(text: str) -> Facts:
    """Return the facts of a text that ``written`` has made; none of another text, for then they are not known."""
    try:
        return in_order({_fact(key): value for key, value in json.loads(text or "{}").items()})
    except (ValueError, AttributeError):
        return ()


def _fact(text: str) -> Fact:
    """Return the fact of a text. Names of nodes have no spaces, and one without a node begins with ``the``."""
    about, _, name = text.partition(" ")
    if about == "the":
        return Fact(text)
    node, _, receptacle = about.partition("/")
    return Fact(name, NodeName(node), int(receptacle) if receptacle else None)
