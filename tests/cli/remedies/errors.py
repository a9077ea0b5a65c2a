"""Wrong turns and notes of commands that name a command: what is typed first, and where the text is in the source."""

from __future__ import annotations

import re
from dataclasses import dataclass


def is_of(words: str, command: str) -> bool:
    """Return whether a printed command is the one of the source, which has ``{x}`` for what is filled in."""
    words = words.partition(" (")[0]
    bare = re.sub(r"^reconciler (--home ('[^']*'|\S+) )?", "", command)
    return re.match(".+".join(map(re.escape, re.split(r"\{[a-z]+\}", words))), bare) is not None


@dataclass(frozen=True)
class Row:
    """Something typed that is answered with a command to type."""

    file: str
    words: str
    """As the source has it, with ``{x}`` for what is filled in."""
    typed: str
    first: tuple[str, ...] = ()
    """What was typed before, so that it is answered so."""

    def __str__(self) -> str:
        return f"{self.file}: {self.words}"

    def names(self, command: str) -> bool:
        """Return whether a printed command is the one of the source."""
        return is_of(self.words, command)


APPLY, MIRROR = "apply -f FILE", "mirror"
CHANGED = (APPLY, "scale md/tiny --replicas=2", "patch model/tiny -p MOVED")
ROWS = (
    Row("cli/commands/read/plan.py", "apply --plan {x}", "plan -f FILE --save"),
    Row("cli/commands/read/plan.py", "plan -f FILE --save", "plan --save"),
    Row("cli/commands/read/plan.py", "get operations", "plan", ("cordon node-a",)),
    Row("cli/core/saved_plans.py", "plan -f DIR --save", "apply --plan zzzzzz"),
    Row("cli/commands/write/manifests.py", "apply -f manifests/", "apply"),
    Row("cli/commands/read/describe.py", "describe deployment {x}", "describe rank big.0.1.0"),
    Row("cli/commands/read/explain.py", "explain md", "explain ranks"),
    Row("cli/commands/shell/schema.py", "schema md", "schema ranks"),
    Row("cli/commands/read/get.py", "get fabric NAME -o {x}", "get nodes -o dot"),
    Row("cli/commands/read/get.py", "get KIND -o yaml", "get md -o jsonpath={.items[0].spec.replica}"),
    Row("cli/commands/read/incidents.py", "incidents", "incidents 999"),
    Row("cli/commands/read/incidents.py", "incidents", "incidents first"),
    Row("cli/commands/read/top.py", "top --since 1h", "top --since 1h deployment nobody"),
    Row("cli/commands/logs/rank_logs.py", "describe deployment {x}", "logs big"),
    Row("cli/commands/write/delete.py", "delete {x} --with-links", "delete node/node-a --no-wait", ("apply -f CABLES",)),
    Row("cli/commands/write/key.py", "key rotate {x}", "key create spare", ("key create spare",)),
    Row("cli/commands/write/key.py", "key create NAME", "key rotate gone", ("key create gone", "key revoke gone")),
    Row("cli/commands/write/label.py", "annotate KIND/NAME KEY=VALUE", "label md/big 'text=two words'"),
    Row("cli/commands/write/source.py", "source set URL", "source sync"),
    Row("cli/commands/machines/drain.py", "start", "uncordon node-a", ("stop",)),
    Row("cli/commands/cluster/stop.py", "start", "stop"),
    Row("cli/commands/cluster/stop.py", "uncordon NODE", "start", ("start", "cordon node-a")),
    Row("planning/nodes/eligible.py", "start", "describe md big", ("stop",)),
    Row("source/patches.py", "get KIND/NAME -o yaml", "patch md/big --type json -p '[{\"op\":\"remove\",\"path\":\"/spec/x\"}]'"),
    Row("source/patches.py", "delete KIND/NAME", "patch md/big --type json -p '[{\"op\":\"remove\",\"path\":\"\"}]'"),
    Row("source/git/going_back.py", "get all", "rollout undo md/nobody"),
    Row("source/git/repository.py", "history", "history 123"),
    Row("source/operating/verbs.py", "get operations", "resume md/big"),
    Row("source/operating/verbs.py", "plan", "approve 12345678"),
    Row("cli/commands/read/facts.py", "facts export -o FILE", "plan -f DIR --facts FILE"),
    Row("errors.py", "get {x}", "describe node zzz"),
    Row("controller/admin/acceptance.py", "describe deployment {x}", "verify big"),
    Row("facts/recorded.py", "facts export -o FILE", "plan -f DIR --facts BAD"),
    Row("cli/commands/read/plan.py", "plan -f DIR --facts FILE", "plan --facts FACTS", ("facts export -o FACTS",)),
    Row("cli/commands/ci/workflow.py", "facts export -o {x}", "ci init github --wheel WHEEL"),
    Row("state/desired.py", "resume --all", "get all", ("suspend --all", "scale md/big --replicas=2")),
)  # fmt: skip

ALONE = (
    Row("cli/core/commits.py", "apply -f FILE", "label md/tiny a=b"),
    Row(
        "cli/commands/cluster/backup.py",
        "restore --force FILE",
        "restore BACKUP",
        (APPLY, "backup -o BACKUP"),
    ),
    Row("cli/commands/write/patch.py", "apply -f FILE", "patch md/tiny -p RENAMES", (APPLY,)),
    Row("cli/core/operations.py", "undo {x}", "scale md/tiny --replicas=2", (APPLY, MIRROR)),
    Row("cli/core/operations.py", "undo {x}", "rollout pause md/tiny", (APPLY, MIRROR)),
    Row("source/git/going_back.py", "rollout undo model/{x}", "rollout undo md/tiny", CHANGED),
    Row("source/git/going_back.py", "rollout undo {x} --to-revision={x}", "rollout undo md/tiny", CHANGED),
    Row("cli/contexts/contexts_file.py", "context list", "context use nobody", ("context add one HOME",)),
)
"""The same where no controller runs, in a home without anything."""

PUSHED = (
    ("controller/admin/forecast.py", "get operations"),
    ("controller/admin/forecast.py", "plan"),
)
"""What is said to somebody who pushes much at once beside many operations."""
AT_MACHINES = (
    ("cli/commands/write/fabric.py", "node add HOST"),
    ("cli/core/confirm.py", "apply -f -"),
    ("cli/commands/machines/node.py", "node add --again {x}"),
    ("cli/commands/machines/node.py", "node bootstrap {x}"),
    ("planning/diagnosis/rules.py", "node bootstrap {node}"),
    ("status/node.py", "node bootstrap {x}"),
    ("remote/ssh/connection.py", "node add --again {x}"),
    ("doctor/examine.py", "node add --again {node}"),
)
"""What test_machines.py types, at a real server."""
