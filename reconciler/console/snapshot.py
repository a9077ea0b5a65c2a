"""The console's knowledge of the cluster: the controller's last answers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from reconciler.wire import answers
from reconciler.wire import objects as wire


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest answers of the controller, and whether it still answers."""

    number: int = 0
    """Grows with each change."""
    at: float = 0.0
    """Time of the controller's last answer, in seconds since the Unix epoch; 0 before the first."""
    lost: str = ""
    """The reason why it does not answer now; empty while it does."""
    status: answers.ControllerStatus = field(default_factory=lambda: cast(answers.ControllerStatus, {}))
    """``ShowStatus``; empty before the first answer."""
    objects: tuple[wire.Object, ...] = ()
    """``Get``: manifests with their status."""
    ranks: tuple[wire.Rank, ...] = ()
    """``Get("Rank")``."""
    plan: answers.Planned = field(default_factory=lambda: answers.Planned(steps=[], waiting=[], refused=[]))
    """``ShowPlan``."""
    incidents: tuple[answers.Incident, ...] = ()
    """``ListIncidents``, oldest first."""
    events: tuple[answers.EventEntry, ...] = ()
    """``ListEvents``, oldest first."""
    usage: answers.Usage = field(default_factory=lambda: answers.Usage(nodes=[], ranks=[], unobserved=[]))
    """``ShowUsage``."""
    metrics: Mapping[str, answers.Metrics] = field(default_factory=dict)
    """``ShowMetrics`` for each of ``view.metrics.RANGES``, by its name."""
    commits: answers.Commits = field(
        default_factory=lambda: answers.Commits(version="", items=[], problem=None)
    )
    """``ListCommits``."""
    remote: answers.SourceState = field(default_factory=lambda: answers.SourceState())
    """``ShowSource``; empty if manifests come from no remote repository."""
    operations: tuple[wire.Operation, ...] = ()
    """``Get("Operation")``."""
    answer: answers.ShownCommit | str = "the controller was not asked"
    """The answer to one page's own question; a text with the reason if there is none."""

    @property
    def nodes(self) -> tuple[wire.Node, ...]:
        """Return the Nodes, in the controller's order, as all the following."""
        return tuple(each for each in self.objects if each["kind"] == "Node")

    @property
    def fabrics(self) -> tuple[wire.Fabric, ...]:
        return tuple(each for each in self.objects if each["kind"] == "Fabric")

    @property
    def deployments(self) -> tuple[wire.ModelDeployment, ...]:
        return tuple(each for each in self.objects if each["kind"] == "ModelDeployment")

    @property
    def jobs(self) -> tuple[wire.Job, ...]:
        return tuple(each for each in self.objects if each["kind"] == "Job")

    @property
    def gateway(self) -> wire.Gateway | None:
        """Return the Gateway; None without one."""
        return next((each for each in self.objects if each["kind"] == "Gateway"), None)

    @property
    def keys(self) -> tuple[wire.ApiKey, ...]:
        return tuple(each for each in self.objects if each["kind"] == "ApiKey")

    def node(self, name: str) -> wire.Node | None:
        return next((each for each in self.nodes if each["metadata"]["name"] == name), None)

    def deployment(self, name: str) -> wire.ModelDeployment | None:
        return next((each for each in self.deployments if each["metadata"]["name"] == name), None)

    def job(self, name: str) -> wire.Job | None:
        return next((each for each in self.jobs if each["metadata"]["name"] == name), None)

    def named(self, kind: str, name: str) -> wire.Object | None:
        found = (each for each in self.objects if each["kind"] == kind and each["metadata"]["name"] == name)
        return next(found, None)

    def planned(self, of: str) -> Iterator[answers.Obstacle]:
        """Return what the plan waits for and refuses of an object, ``kind/name`` in lower case."""
        yield from (entry for entry in self.plan["refused"] if entry["object"] == of)
        yield from (entry for entry in self.plan["waiting"] if entry["object"] == of)
