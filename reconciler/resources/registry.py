"""The names of the kinds and their modules. To add a kind, add a module and a row here.

Does not import pydantic, so that shell completion stays fast.
"""

from __future__ import annotations

from dataclasses import dataclass

API_VERSION = "reconciler/v1alpha1"
STOPPED = "reconciler/stopped"
"""The label of a node that `reconciler stop` drained. Its value is the state that `start` restores."""


@dataclass(frozen=True, slots=True)
class KindSpec:
    """One kind of manifest."""

    name: str
    """The word in manifests, and the name of its class."""
    plural: str
    short_names: tuple[str, ...]
    """Further words for it on the command line; the first is its singular."""
    module: str
    """The module of this package that holds its class."""
    about: str
    """A noun phrase for an object of this kind, for lists."""


SPECS = (
    KindSpec("Node", "nodes", ("node", "no"), "node", "a machine that can run ranks"),
    KindSpec(
        "Fabric", "fabrics", ("fabric", "fab"), "fabric", "the Thunderbolt cables that should be connected"
    ),
    KindSpec("Model", "models", ("model", "mo"), "weights", "weights that deployments can serve"),
    KindSpec(
        "ModelDeployment",
        "modeldeployments",
        ("modeldeployment", "deployment", "deployments", "deploy", "md"),
        "deployment",
        "a model to serve, and how",
    ),
    KindSpec("Gateway", "gateways", ("gateway", "gw"), "gateway", "the HTTP endpoint for clients"),
    KindSpec(
        "Notifier", "notifiers", ("notifier", "notify"), "notifier", "a webhook for messages about incidents"
    ),
    KindSpec("ApiKey", "apikeys", ("apikey", "key"), "api_key", "a key for clients of the endpoint"),
    KindSpec(
        "SyncWindow",
        "syncwindows",
        ("syncwindow", "window"),
        "sync_window",
        "times in which changes may apply",
    ),
    KindSpec("Job", "jobs", ("job",), "job", "a program that runs on several nodes until it ends"),
)
"""Every kind, in the order of lists."""
PLURALS = {spec.name: spec.plural for spec in SPECS}
SHORT_NAMES = {spec.name: spec.short_names for spec in SPECS}
KIND_NAMES = tuple(PLURALS)
RUN = "run/"
"""The beginning of a word that permits a Job by its name, next to words such as ``model/tiny`` that permit a removal: no kind
has this name."""
