"""Commands that are not typed by these tests, each with the reason. Whoever adds one says why no state can be made here."""

from __future__ import annotations

FOREGROUND = "it begins a cluster in the foreground, or asks a model: tests/e2e/test_up.py does"
MACHINE = (
    "it needs a machine over SSH: tests/cli/remedies/test_machines.py types it where something else says it"
)
SERVICES = "it changes services of the system: tests/e2e/test_upgrade.py does"
RANKS = "it needs a group that serves: tests/e2e/shared_cluster has some"
WATCHES = "it goes on until Ctrl-C: tests/cli/core/test_watching.py types it"
ELSEWHERE = "the same command is typed where another text says it, in errors.py or test_running.py"
NAMES = "it names a command, and does not say to type it: a summary in help, the head of a file, a process"
WRITTEN = "it is a line of a workflow that a forge runs: tests/e2e/test_ci_workflow.py does"
DAMAGED = "a controller says it that has found damage: the doctor is typed in of_a_controller.py, and what it says then in of_a_home.py"
PERSON = "a person puts something right first: an environment, a limit of the system"
OVER_SSH = "a cluster on another machine has to be there: tests/cli/contexts/test_away.py has one"
HUB = "it needs weights of a hub that no machine has: tests/cli/commands/machines/test_verify.py scripts the answer"
SAVED = "the id of a plan is new each time: tests/cli/commands/write/test_saved_plans.py reads it"
HELD = "it foresees a held revision; test_errors.py types what is said once it is held"
UNDECIDED = "a push has to wait for groups that form: tests/controller/test_pushes.py pushes"
GONE = "the program of an emulated Mac says it after its sandbox has ended; `sandbox up` is typed in test_running.py"
PUSHED = "a pushed operation is refused with it: tests/controller/test_jobs.py pushes"
LOSSES = "machines have to be lost twice: tests/e2e/emulated_macs/test_harmful_job.py has some"

HINTS_FOR_HANDS = {
    **dict.fromkeys(("quickstart", "console", "chat", "rehearse"), FOREGROUND),
    **dict.fromkeys(("install", "uninstall", "upgrade", "rollback"), SERVICES),
    **dict.fromkeys(("reboot", "node add", "node examine", "node bootstrap"), MACHINE),
    **dict.fromkeys(("verify", "logs", "apply --dry-run=server", "wait"), RANKS),
    **dict.fromkeys(("events -w", "get all -w", "get KIND -w"), WATCHES),
    **dict.fromkeys(("up", "start", "sandbox"), ELSEWHERE),
    "source sync": "it needs a remote repository: tests/controller/mirror has some",
    "ci": "it needs a clone and the product's wheel, in errors.py",
}  # fmt: skip
"""How such a command of a hint begins."""

_BY_REASON: dict[str, dict[str, tuple[str, ...]]] = {
    FOREGROUND: {"cli/commands/cluster/quickstart.py": ("quickstart",)},
    SERVICES: {
        "cli/commands/installed/install.py": ("get all", "upgrade"),
        "cli/commands/installed/upgrade.py": ("install (a change of manifests", "rollback", "up"),
    },
    NAMES: {
        "cli/commands/ci/templates.py": ("ci init (\\w+",),
        "cli/commands/installed/handover.py": ("up",),
        "cli/core/groups.py": ("resume", "stop", "suspend"),
        "doctor/state_directory.py": ("up",),
        "services/up_service.py": ("install",),
        "sandbox/cluster.py": ("sandbox up",),
    },
    WRITTEN: {"cli/commands/ci/templates.py": ("ci comment", "facts export -o FACTS")},
    DAMAGED: {"controller/repository_care.py": ("doctor",)},
    PERSON: {
        "doctor/examine.py": ("up",),
        "secret_files.py": ("up",),
    },
    OVER_SSH: {"cli/commands/shell/context.py": ("context add NAME ssh://USER@HOST",)},
    HELD: {"cli/core/commits.py": ("approve REVISION",)},
    UNDECIDED: {"source/git/hook_client.py": ("get deployments -w",)},
    PUSHED: {"controller/admin/pushes.py": ("suspend job/",)},
    LOSSES: {"planning/jobs/runs.py": ("restart job/{x}",)},
    HUB: {"controller/admin/verification.py": ("describe model {x}",)},
    SAVED: {"cli/commands/write/manifests.py": ("plan -f DIR --save",)},
    GONE: {"sandbox/emulated/line.py": ("sandbox up",)},
    ELSEWHERE: {
        "controller/mirror/comment.py": ("approve REVISION",),
        "remote/bootstrap/actions.py": ("up",),
        "services/machine.py": ("up",),
    },
}  # fmt: skip
FOR_HANDS = {
    (file, words): reason
    for reason, files in _BY_REASON.items()
    for file, found in files.items()
    for words in found
}
