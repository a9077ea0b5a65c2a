"""The texts of the snapshots that go into a file of facts, and their form, because a repository may be public.

Numbers, answers and states always go into it. A text does only if its field is listed here; all other texts are left
out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reconciler.state import GroupRecord, Memory, NodeObservation
from reconciler.state.faults import Attempt, Reboot, Symptom, TransportFailure, VerbsAttempts
from reconciler.state.formed_spec import FormedSpec
from reconciler.state.jobs import Artifacts, RankEnd, Run, RunAttempt, RunEnd
from reconciler.state.machine.facts import MachineFacts, PortFacts, Route
from reconciler.state.machine.runtimes import Runtimes, Tidied
from reconciler.state.memory import StepFailure
from reconciler.state.observed import Ends
from reconciler.state.rollback import Rollback
from reconciler.wire.launch import Exit, TransportProof
from reconciler.wire.node import Load, ModelReport, NodeReport, RankReport
from reconciler.wire.repair import Change, RepairReport
from reconciler.wire.weights import (
    FailedExamination,
    FetchReport,
    FileReport,
    KeptWeights,
    Progress,
    RankShare,
)

DOCUMENTATION = ipaddress.ip_network("192.0.2.0/24")
"""Addresses that belong to nobody (RFC 5737)."""
HIDDEN = "hidden"
"""Stands for a secret, because a group can be completed only if it has one."""
_HOME = re.compile(r"/(?:Users|home)/[^/\s'\",;:]+|/(?:var/)?root(?=[/\s'\",;:]|$)")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")


@dataclass(slots=True)
class Disguise:
    """Replaces private texts. Equal texts always have equal replacements."""

    public: frozenset[str] = frozenset()
    """Texts that the manifests have, too."""
    known: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def kept(self, text: str) -> str:
        """Keep names of the manifests, versions, and words of the product and of macOS."""
        return text

    def written(self, text: str) -> str:
        """Return a sentence or a path without homes of users and without public addresses."""
        if text in self.public:
            return text
        return _IPV4.sub(lambda found: self.address(found[0]), _HOME.sub("~", text))

    def identity(self, text: str) -> str:
        """Replace an id of a machine by a number: only the equality of ids matters."""
        return self.known.setdefault(text, f"id-{len(self.known) + 1}") if text else ""

    def address(self, text: str) -> str:
        """Keep an IPv4 address of a private network, and replace any other address; keep the prefix."""
        host, slash, prefix = text.partition("/")
        try:
            found = ipaddress.IPv4Address(host)
        except ValueError:
            return self.identity(text)
        if found.is_private or found.is_link_local or found.is_loopback:
            return text
        last = DOCUMENTATION.num_addresses - 2
        replaced = self.addresses.setdefault(host, str(DOCUMENTATION[1 + len(self.addresses) % last]))
        return replaced + slash + prefix

    def network(self, text: str) -> str:
        """Keep a route, unless it leads to a public network."""
        return text if ipaddress.ip_network(text, strict=False).is_private else str(DOCUMENTATION)

    def secret(self, text: str) -> str:
        """Show only that there is a secret."""
        return HIDDEN if text else ""


Form = Callable[[Disguise, str], str]
_K, _T, _I, _A = Disguise.kept, Disguise.written, Disguise.identity, Disguise.address


def _forms(form: Form, names: str) -> dict[str, Form]:
    return dict.fromkeys(names.split(), form)


TEXTS: dict[type[Any], dict[str, Form]] = {
    NodeObservation: {**_forms(_K, "name barred"), **_forms(_T, "problem remedy")},
    NodeReport: {
        # The boot's id is random, and new at every boot: fingerprints in the memory have it too.
        **_forms(_K, "boot_id system release machine runtime agent_file build held_by"),
        **_forms(_T, "python run_directory"),
        **_forms(_I, "agent_id host_id"),
    },
    RankReport: {
        **_forms(_K, "group phase gone transport"),
        **_forms(_K, "formed_for"),  # as the manifests have it
        **_forms(_T, "detail kept"),
    },
    Exit: _forms(_T, "detail"),
    ModelReport: {
        **_forms(_K, "path reuse rope unsplittable shares lacking code"),
        **_forms(_T, "directory config problem tools reread note absent_volume"),
    },
    RankShare: _forms(_K, "files"),
    FailedExamination: _forms(_T, "text"),
    FetchReport: _forms(_K, "wish"),
    Progress: {**_forms(_K, "phase file problem"), **_forms(_T, "text")},
    FileReport: _forms(_K, "name state"),
    KeptWeights: {**_forms(_K, "path"), **_forms(_T, "directory")},
    Load: _forms(_K, "pressure"),
    RepairReport: {
        **_forms(_K, "id boot_id state tried barred broken_off readdressed"),
        **_forms(_T, "problem"),
    },
    Change: _forms(_T, "argv undo"),
    MachineFacts: {
        **_forms(_K, "boot_id system model chip default_route bridged_ethernet"),
        **_forms(_T, "unknown"),
    },
    PortFacts: {
        **_forms(_K, "interface device peer through peer_model other_bridge"),
        **_forms(_T, "service"),
        **_forms(_I, "domain peer_domain"),
        **_forms(_A, "address other_addresses"),
    },
    Route: {**_forms(Disguise.network, "network"), **_forms(_K, "interface")},
    Ends: _forms(_A, "here there inner"),
    GroupRecord: {
        **_forms(_K, "members fingerprint model strategy transport boots facts weights weights_before"),
        **_forms(_T, "strategy_why transport_why"),
        **_forms(Disguise.secret, "secret"),
    },
    Memory: _forms(_K, "in_flight failures writes repaired verbs proofs reboots rollbacks agent_file"),
    StepFailure: _forms(_T, "text"),
    Symptom: _forms(_T, "text"),
    Runtimes: {**_forms(_K, "wanted built tidied"), **_forms(_T, "progress")},
    Tidied: _forms(_K, "key"),
    Attempt: {**_forms(_K, "cause spec_generations"), **_forms(_T, "text")},
    TransportFailure: {**_forms(_K, "transport facts"), **_forms(_T, "text person")},
    VerbsAttempts: _forms(_K, "boot_id"),
    TransportProof: _forms(_T, "why_no_prompt"),
    Reboot: {**_forms(_K, "boot_id"), **_forms(_T, "reason")},
    Run: _forms(_K, "fingerprint"),
    RunAttempt: {**_forms(_K, "transport"), **_forms(_T, "text")},
    RankEnd: _forms(_K, "node"),
    RunEnd: _forms(_T, "text"),
    Artifacts: _forms(_T, "text"),
    FormedSpec: _forms(_K, "json"),  # as the manifests have it
    Rollback: {**_forms(_K, "model tried served restarted_at"), **_forms(_T, "text")},
}
"""The form of each text, by class and field."""

LEFT_OUT: dict[type[Any], frozenset[str]] = {
    NodeReport: frozenset({"hostname"}),
    RankReport: frozenset({"socket", "shim_pid"}),
    Ends: frozenset({"jumps"}),
    Memory: frozenset({"agents", "gateways", "leaving", "deliveries", "unwritable", "locked"}),
}
"""Fields that are always left out."""
