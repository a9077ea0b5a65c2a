"""Commands that are not typed by these tests, each with the reason. Whoever adds one says why no state can be made here."""

from __future__ import annotations

FOREGROUND = (
    "it begins, or is said by, a cluster in the foreground; such states are made in tests/e2e/test_up.py"
)
MACHINE = "it needs a machine over SSH; such states are made in tests/cli/commands/machines and tests/e2e/emulated_macs"
SERVICES = "it changes services of the system; such states are made in tests/e2e/test_upgrade.py"
RANKS = "it needs groups that serve; such states are made in tests/e2e/shared_cluster"
SANDBOX = "it needs running emulated Macs; such states are made in tests/sandbox"
WRITTEN = "it stands in a file that is written, or in a text that documents a command"
REMOTE = (
    "it needs a remote repository; such states are made in tests/source/mirror and tests/controller/mirror"
)
DAMAGED = (
    "it needs a damaged repository or store; such states are made in tests/doctor/test_state_directory.py"
)
PERSON = "a person puts something right first: a file, an environment, a machine"
LOOK = "it shows one object, of a state that needs ranks or a gateway; the same command is typed for others"
FORGE = "it belongs to a forge's workflow or to recorded facts; tests/e2e/test_ci_workflow.py has one"

HINTS_FOR_HANDS = {
    **dict.fromkeys(("up", "quickstart", "console", "chat", "rehearse"), FOREGROUND),
    **dict.fromkeys(("install", "uninstall", "upgrade", "rollback"), SERVICES),
    **dict.fromkeys(("reboot", "node add", "node examine", "node bootstrap", "doctor"), MACHINE),
    **dict.fromkeys(("verify", "logs", "top", "apply --dry-run=server", "wait"), RANKS),
    **dict.fromkeys(("events -w", "get all -w", "get KIND -w"), "it goes on until Ctrl-C; such states are made in tests/cli/core/test_watching.py"),
    "start": "it is typed where the cluster is stopped, in errors.py",
    "source sync": REMOTE,
    "sandbox": SANDBOX,
    "ci": FORGE,
    "facts export": "it is typed where facts are missing, in errors.py",
}  # fmt: skip
"""How such a command of a hint begins."""

_BY_REASON: dict[str, dict[str, tuple[str, ...]]] = {
    FOREGROUND: {
        "bootstrap/home.py": ("up",),
        "bootstrap/origin.py": ("up -f MANIFESTS",),
        "cli/commands/cluster/backup.py": ("up",),
        "cli/commands/cluster/console.py": ("key create NAME --console view", "up"),
        "cli/commands/cluster/quickstart.py": ("quickstart", "up"),
        "cli/commands/cluster/seed.py": ("apply -f {x}",),
        "cli/commands/cluster/session.py": ("apply -f DIR", "up"),
        "cli/commands/cluster/up.py": ("get all",),
        "cli/commands/write/source.py": ("up", "source show"),
        "cli/core/client.py": ("logs --controller", "up (another home"),
        "cli/core/operations.py": ("up",),
        "cli/core/waiting.py": ("up",),
    },
    MACHINE: {
        "cli/commands/machines/bootstrap.py": ("up",),
        "cli/commands/machines/node.py": ("apply -f -", "node add --again {x}", "node bootstrap {x}"),
        "cli/commands/machines/reboot.py": (
            "describe node {x}", "get nodes", "reboot {x} --force", "undo reboot.node.NAME",
        ),
        "cli/commands/shell/context.py": ("context add NAME ssh://USER@HOST",),
        "cli/commands/write/fabric.py": ("apply -f -", "get nodes -o yaml", "node add HOST"),
        "doctor/examine.py": ("describe {x}/{x}", "node add --again {node}", "up"),
        "inventory/examination/record.py": ("node examine HOST",),
        "planning/diagnosis/rules.py": ("node bootstrap {node}",),
        "remote/bootstrap/actions.py": ("up",),
        "remote/ssh/connection.py": ("node add --again {x}",),
        "status/node.py": ("node bootstrap {x}",),
    },
    SERVICES: {
        "cli/commands/installed/handover.py": ("up",),
        "cli/commands/installed/install.py": ("get all", "upgrade"),
        "cli/commands/installed/upgrade.py": (
            "install (a change of manifests", "rollback", "up", "upgrade VERSION",
        ),
        "remote/installation/machine.py": ("up",),
        "remote/installation/service.py": ("install",),
    },
    RANKS: {
        "cli/commands/read/incidents.py": ("doctor",),
        "controller/admin/forecast.py": ("get operations", "plan"),
        "gateway/errors.py": ("describe modeldeployment/{x}", "rollout restart deployment/NAME"),
        "source/git/hook_client.py": ("get deployments -w",),
        "source/operating/verbs.py": ("drain {x} --force",),
        "cli/core/commits.py": ("approve REVISION",),
        "controller/operations_layer.py": ("undo {x}",),
    },
    LOOK: {
        "cli/commands/cluster/chat.py": ("get gateways",),
        "cli/commands/read/trace.py": ("plan",),
        "cli/core/objects.py": ("events", "get nodes"),
        "console/chat/upstream.py": ("get gateways",),
        "controller/admin/acceptance.py": ("describe deployment {x}",),
        "controller/admin/verification.py": ("describe model {x}",),
        "controller/desired_state.py": ("validate",),
        "doctor/checks.py": ("describe node {node}",),
        "source/git/commit_log.py": ("history",),
        "status/gateway.py": ("get deployments", "logs --gateway"),
    },
    SANDBOX: {
        "cli/commands/cluster/sandbox.py": (
            "sandbox status", "sandbox up --nodes 2 --detach", "up -f {x}",
        ),
        "sandbox/acts/machines.py": ("sandbox", "sandbox rdma off studio-2"),
        "sandbox/acts/ranks.py": (
            "sandbox gpu-fault studio-1 oom", "sandbox mute studio-1 broken", "sandbox unkillable studio-2 20",
        ),
        "sandbox/commands.py": ("sandbox {x} {x}",),
        "sandbox/emulated/line.py": ("sandbox up",),
        "sandbox/world/changes.py": ("sandbox plug {x}", "sandbox unplug {x}"),
    },
    WRITTEN: {
        "cli/commands/ci/templates.py": ("ci comment", "ci init (\\w+", "ci init {x}", "facts export -o FACTS"),
        "cli/core/app.py": ("context list",),
        "cli/core/groups.py": ("resume", "stop", "suspend"),
        "hardening/nftables.py": ("node firewall {x}",),
        "hardening/pf.py": ("node firewall {x}",),
        "sandbox/cluster.py": ("sandbox up",),
    },
    FORGE: {
        "cli/commands/ci/comment.py": ("ci comment DIR --print",),
        "cli/commands/ci/workflow.py": ("facts export -o {x}",),
        "controller/mirror/comment.py": ("approve",),
        "facts/recorded.py": ("facts export -o FILE",),
        "cli/commands/read/plan.py": ("plan -f DIR --facts FILE",),
    },
    REMOTE: {
        "source/git/repository.py": ("source set --path",),
        "source/hook.py": ("source set URL --path DIR",),
        "source/mirror/looking.py": ("source set --allow-rewind",),
        "source/mirror/transport.py": ("source set {x}", "source show"),
        "state/desired.py": ("source set --path FOLDER",),
    },
    DAMAGED: {
        "bootstrap/store.py": ("restore --force FILE",),
        "controller/repository_care.py": ("doctor",),
        "doctor/state_directory.py": ("init", "restore FILE", "up"),
        "source/git/repository.py": ("init",),
        "store/connection.py": ("restore FILE",),
    },
    PERSON: {
        "cli/commands/read/history.py": ("apply -f FILE",),
        "cli/commands/write/edit.py": ("apply -f {x}",),
        "cli/commands/write/manifests.py": ("plan -f DIR --save",),
        "console/access/rights.py": ("edit apikey/{x}",),
        "secret_files.py": ("up",),
        "source/yaml/documents.py": ("key rotate {x}",),
    },
}  # fmt: skip
FOR_HANDS = {
    (file, words): reason
    for reason, files in _BY_REASON.items()
    for file, found in files.items()
    for words in found
}
