"""What the kinds are called and where each is defined: a new kind is a module, and a row here.

Needs no pydantic: completing a word on the command line is to take no longer than typing.
"""

from __future__ import annotations

from dataclasses import dataclass

API_VERSION = "reconciler/v1alpha1"
STOPPED = "reconciler/stopped"
"""The label of a node that `reconciler stop` has drained; its value says how `start` leaves it."""


@dataclass(frozen=True, slots=True)
class KindSpec:
    """One kind of manifest."""

    name: str
    """As manifests have it, and the name of its class."""
    plural: str
    short_names: tuple[str, ...]
    """Further words for it on the command line; the first is its singular."""
    module: str
    """Of this package: where its class is."""
    about: str
    """What an object of it is, in a few words."""


SPECS = (
    KindSpec("Node", "nodes", ("node", "no"), "node", "a machine that ranks can run on"),
    KindSpec(
        "Fabric", "fabrics", ("fabric", "fab"), "fabric", "the Thunderbolt cables that are meant to be there"
    ),
    KindSpec("Model", "models", ("model", "mo"), "model", "weights"),
    KindSpec(
        "ModelDeployment",
        "modeldeployments",
        ("modeldeployment", "deployment", "deployments", "deploy", "md"),
        "deployment",
        "a model that should be served",
    ),
    KindSpec("Gateway", "gateways", ("gateway", "gw"), "gateway", "the endpoint that clients talk to"),
    KindSpec(
        "Notifier", "notifiers", ("notifier", "notify"), "notifier", "a webhook that is told of incidents"
    ),
    KindSpec("ApiKey", "apikeys", ("apikey", "key"), "api_key", "a key for clients of the endpoint"),
)
"""Every kind, in the order in which lists show them."""
PLURALS = {spec.name: spec.plural for spec in SPECS}
SHORT_NAMES = {spec.name: spec.short_names for spec in SPECS}
KIND_NAMES = tuple(PLURALS)
