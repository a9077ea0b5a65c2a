"""What the kinds are called. Apart from the kinds themselves, for who only needs their names needs no pydantic."""

from __future__ import annotations

API_VERSION = "reconciler/v1alpha1"
STOPPED = "reconciler/stopped"
"""The label of a node that `reconciler stop` has drained; its value says how `start` leaves it."""

PLURALS: dict[str, str] = {
    "Node": "nodes",
    "Fabric": "fabrics",
    "Model": "models",
    "ModelDeployment": "modeldeployments",
    "Gateway": "gateways",
    "Notifier": "notifiers",
}
SHORT_NAMES: dict[str, tuple[str, ...]] = {
    "Node": ("node", "no"),
    "Fabric": ("fabric", "fab"),
    "Model": ("model", "mo"),
    "ModelDeployment": ("modeldeployment", "deployment", "deployments", "deploy", "md"),
    "Gateway": ("gateway", "gw"),
    "Notifier": ("notifier", "notify"),
}
KIND_NAMES = tuple(PLURALS)
"""Every kind, in the order in which lists show them."""
