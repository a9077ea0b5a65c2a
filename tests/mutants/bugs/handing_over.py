"""What happens to clients, counts and files when one gateway takes over from another."""

from __future__ import annotations

from ast import Assign, AugAssign, Call, Expr, If, IfExp, keyword

from reconciler.gateway import files, server
from reconciler.gateway.handover import channel, handing_over, reports
from reconciler.gateway.keys import ledger, usage
from reconciler.services import lock
from tests.mutants.mutant import Mutant
from tests.mutants.operators import catch_nothing, drop, keep, never, put

OLD_GATEWAY = ("tests/gateway/handover/test_old_gateway.py",)
NEW_GATEWAY = ("tests/gateway/handover/test_new_gateway.py",)
REPORTS = ("tests/gateway/handover/test_reports.py",)

HANDED_OVER = (
    Mutant(
        "a-failed-handover-ends-a-gateway",
        handing_over.hand_over,
        catch_nothing(1, 2),
        "an upgrade that comes to nothing ends the endpoint that works",
        OLD_GATEWAY,
    ),
    Mutant(
        "a-new-gateway-is-waited-for",
        handing_over._hand_over,
        put(Call, "asyncio.timeout(None)", 5, 9),
        "a new gateway that hangs before it accepts keeps every later one from taking over",
        OLD_GATEWAY,
    ),
    Mutant(
        "a-drained-gateway-writes",
        server._Gateway._drain,
        drop(Expr, 2, 7),
        "the use of keys in the file goes back to that of a gateway which was replaced",
        OLD_GATEWAY,
    ),
    Mutant(
        "a-drained-gateway-keeps-clients",
        server._Gateway._drain,
        drop(Assign, 1, 5),
        "clients go on with a gateway of the earlier version for an hour, and are then cut",
        ("tests/gateway/handover/test_last_answers.py",),
    ),
    Mutant(
        "a-good-certificate-is-given-up",
        server._Gateway._take_over,
        never(If, 0, 3),
        "an upgrade replaces an endpoint that works by one that nobody can connect to",
        ("tests/gateway/handover/test_one_process.py",),
    ),
    Mutant(
        "a-stop-leaves-the-old-gateway",
        server._Gateway._end,
        drop(Expr, 1, 6),
        "a gateway that drains goes on after everything was stopped",
        NEW_GATEWAY,
    ),
    Mutant(
        "figures-are-counted-twice",
        files.Files.__init__,
        keep(IfExp, "body"),
        "plots show what was answered before an upgrade once more",
        NEW_GATEWAY,
    ),
    Mutant(
        "use-is-reported-twice",
        reports._since,
        drop(keyword, 0, 2),
        "an upgrade uses up the budgets of keys whose answers are long",
        REPORTS,
    ),
    Mutant(
        "a-late-report-ends-the-day",
        usage.Book.add,
        drop(Expr, 2, 3),
        "the use of a key today is not shown after an upgrade around midnight",
        REPORTS,
    ),
    Mutant(
        "reported-use-has-no-limit",
        ledger.MemoryLedger.add,
        drop(AugAssign),
        "every upgrade and every restart gives each key its budget of the day again",
        REPORTS,
    ),
    Mutant(
        "unused-descriptors-stay-open",
        channel.Channel.close,
        drop(Expr, 1, 3),
        "a handover that fails keeps the lock and the port, and later gateways cannot start",
        ("tests/gateway/handover/test_channel.py",),
    ),
    Mutant(
        "a-lock-names-who-has-left",
        lock.Lock.inherit,
        drop(Expr, 1, 3),
        "an upgrade is taken back although its gateway serves",
        ("tests/services/test_lock.py",),
    ),
)
