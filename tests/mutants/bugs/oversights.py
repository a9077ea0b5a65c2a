"""Small slips where much depends on one word: a limit, a token, a lock, a descriptor, a number in a message."""

from __future__ import annotations

from ast import (
    Add,
    Assign,
    AugAssign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    DictComp,
    Expr,
    For,
    GtE,
    If,
    IfExp,
    List,
    Lt,
    LtE,
    Return,
    Sub,
    With,
    keyword,
)

from reconciler.admission import windows
from reconciler.agent import server
from reconciler.agent.ranks import child, log, shim
from reconciler.agent.weights import kept
from reconciler.gateway.routing import connection, pool, routes, run
from reconciler.gateway.routing import progress as gateway_progress
from reconciler.planning.placement import capacity
from reconciler.remote import agent_connection as transport_link
from reconciler.remote import relay, rpc
from reconciler.runner.decode import inbox
from reconciler.runner.group import side_channel
from reconciler.runner.process import progress, watch
from reconciler.store import copying, sqlite
from reconciler.store.tables import attempts, nodes, notifications
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, become, drop, keep, never, put, respell

AGENT = (
    "tests/agent/test_notifications.py",
    "tests/agent/test_footprint.py",
    "tests/agent/test_fence.py",
    "tests/agent/ranks/test_life_of_a_rank.py",
)
RANK_LOG = ("tests/agent/ranks/test_rank_log.py",)
STORE = ("tests/store/test_one_of_many.py", "tests/store")
BACKUP = ("tests/cli/commands/cluster/test_backup.py",)
NOTICES = ("tests/store/test_one_of_many.py", "tests/controller/test_notifications.py")
WINDOWS = ("tests/controller/test_sync_windows.py", "tests/properties/test_sync_windows.py")
RPC = ("tests/remote/test_rpc_limits.py", "tests/remote/test_rpc.py")
RELAYS = ("tests/gateway/routing/test_remote_ranks.py", "tests/gateway/routing/test_jumps.py")
STEPS = (
    "tests/runner/decode/test_inbox.py",
    "tests/runner/decode/test_batch_limit.py",
    "tests/runner/decode/test_steps.py",
    "tests/runner/requests/test_server.py",
)
WATCH = (
    "tests/runner/decode/test_inbox.py",
    "tests/runner/process/test_watch.py",
    "tests/runner/test_life_and_death.py",
)
GATEWAY = (
    "tests/gateway/routing/test_progress.py",
    "tests/gateway/routing/test_pool.py",
    "tests/gateway/routing/test_failover.py",
    "tests/gateway/http/test_disconnects.py",
    "tests/gateway/test_process.py",
    "tests/gateway/test_health_and_metrics.py",
)

OF_AGENTS = (
    Mutant(
        "the-lowest-token-wins",
        server.Fence.admits,
        put(Call, "min({it.args[0]}, {it.args[1]})", 0, 2),
        "a controller that was replaced fences off the one that replaced it",
        AGENT,
    ),
    Mutant(
        "a-slow-controller-misses-news",
        server.Agent.catch_up,
        drop(Expr, 2, 3),
        "a controller that read slowly for a moment learns of a crash a quarter of a minute later",
        AGENT,
    ),
    Mutant(
        "one-controller-too-many",
        server.Agent.on_connected,
        become(GtE, Lt),
        "nobody can connect to an agent, or as many as like",
        AGENT,
    ),
    Mutant(
        "changes-have-one-number",
        server.Agent._changed,
        drop(AugAssign),
        "what was seen before a change passes for what is there after it",
        AGENT,
    ),
    Mutant(
        "a-log-s-offsets-begin-anew",
        log.RankLog._rotate,
        keep(BinOp, "right"),
        "who follows a log reads it again from its start after 8 MiB",
        RANK_LOG,
    ),
    Mutant(
        "logs-are-never-deleted",
        log.RankLog._rotate,
        drop(For),
        "the output of a rank that talks fills the disk",
        RANK_LOG,
    ),
    Mutant(
        "each-start-leaks-a-descriptor",
        child._start,
        drop(Expr, 7, 8),
        "an agent that has started a thousand spares can open nothing more",
        AGENT,
    ),
    Mutant(
        "the-rest-of-a-line-is-a-line",
        shim.Lines.feed,
        never(If, 0, 2),
        "the end of a line that was too long is taken for what the rank says of itself",
        AGENT,
    ),
    Mutant(
        "a-stopped-rank-hears-no-end",
        shim.Shim._terminate,
        drop(Expr, 2, 4),
        "a rank that somebody stopped takes its whole grace to end, and ends by SIGKILL",
        AGENT,
    ),
    Mutant(
        "a-rank-says-that-it-has-ended",
        shim.Shim._on_progress,
        drop(Compare, 1, 5),
        "a rank that lives is told of as ended, and its memory is given away",
        AGENT,
    ),
    Mutant(
        "slow-agents-miss-the-end",
        shim.Shim._push_state,
        drop(Compare, 1, 2),
        "an agent that does not read hears nothing of the end of a rank before its shim is gone",
        AGENT,
    ),
    Mutant(
        "wanted-weights-are-stale",
        kept.StoredWeights._describe,
        become(GtE, Lt),
        "weights that a Model wants are removed, and those that nobody wants stay",
        ("tests/agent/weights/test_kept.py",),
    ),
)

OF_THE_STORE = (
    Mutant(
        "two-controllers-have-one-token",
        sqlite.Store._take_over,
        keep(BinOp, "left"),
        "a controller that was replaced goes on writing",
        STORE,
    ),
    Mutant(
        "one-proof-proves-all-replicas",
        sqlite.Store.prove,
        respell("AND replica = ?", "AND ? IS NOT NULL"),
        "clients are sent to a replica that has never answered because another one has",
        STORE,
    ),
    Mutant(
        "a-release-keeps-what-failed",
        sqlite.Store.release,
        drop(Expr, 2, 3),
        "a replica that comes back begins on a slow transport for a failure of long ago",
        STORE,
    ),
    Mutant(
        "a-reboot-is-noted-unfenced",
        nodes.Reboots.note_reboot,
        put(With, "if True:\n    {it.body[0]}"),
        "a controller that was replaced notes a restart that the next one knows nothing of",
        STORE,
    ),
    Mutant(
        "events-of-statuses-are-lost",
        sqlite.Store.put_statuses,
        put(Return, "return 0"),
        "a condition changes, and no event tells of it",
        STORE,
    ),
    Mutant(
        "one-message-ends-those-beside-it",
        notifications.NotificationTable.mark,
        respell("AND occasion = ?", "AND ? IS NOT NULL"),
        "that an incident is over is never sent, for its beginning was",
        NOTICES,
    ),
    Mutant(
        "the-newest-message-goes-first",
        notifications.NotificationTable.next,
        respell("ORDER BY at,", "ORDER BY at DESC,"),
        "people read of an end before the beginning",
        NOTICES,
    ),
    Mutant(
        "formings-are-read-backwards",
        attempts.Attempts.all,
        respell("BY deployment, replica, epoch", "BY deployment, replica, epoch DESC"),
        "the back-off of a replica follows from its oldest attempt",
        STORE,
    ),
    Mutant(
        "a-backup-has-the-secrets",
        copying.copy,
        drop(Expr, 3, 5),
        "whoever reads a backup can speak to every rank that runs",
        BACKUP,
    ),
    Mutant(
        "a-restore-forgets-the-agents",
        copying.carry_over,
        drop(For),
        "agents that were started after the backup are never ended",
        BACKUP,
    ),
)

OF_TRANSPORTS = (
    Mutant(
        "two-questions-have-one-number",
        rpc.RpcClient.request,
        put(Call, "1", 2, 15),
        "the answer to one request is taken for that to another",
        RPC,
    ),
    Mutant(
        "who-answers-again-stays-silent",
        rpc.RpcClient._on_frame,
        drop(Assign, 0, 4),
        "an agent that was slow once is never known to be down, and its node is taken for lost",
        RPC,
    ),
    Mutant(
        "a-silence-is-not-noted",
        rpc.RpcClient.request,
        drop(Assign, 3, 4),
        "a machine that froze passes for one whose agent ended",
        RPC,
    ),
    Mutant(
        "a-lost-connection-is-waited-for",
        rpc.RpcClient._end,
        drop(For),
        "a request waits for its whole time-out on a connection that is gone",
        RPC,
    ),
    Mutant(
        "a-place-is-not-given-back",
        rpc.serve,
        drop(Expr, 2, 10),
        "after 64 requests of one connection nothing is answered any more",
        RPC,
    ),
    Mutant(
        "work-outlives-its-connection",
        rpc.serve,
        drop(For),
        "what nobody waits for any more goes on, and its connection stays open with it",
        RPC,
    ),
    Mutant(
        "connections-have-no-end",
        rpc.RpcServer._accept,
        never(),
        "a script that leaves its connections open takes every descriptor of the controller",
        RPC,
    ),
    Mutant(
        "anybody-may-ask-the-controller",
        rpc.RpcServer.start,
        drop(Expr, 2, 3),
        "any user of the machine may stop a deployment",
        RPC,
    ),
    Mutant(
        "news-have-no-number",
        transport_link.AgentConnection.pushed,
        drop(Assign),
        "a push says that nothing has happened since the connection began",
        RPC,
    ),
    Mutant(
        "a-dead-connection-is-used-again",
        relay._Trunk._lost,
        drop(Assign),
        "after a machine was restarted the gateway never finds its ranks again",
        RELAYS,
    ),
    Mutant(
        "why-a-rank-is-not-there-is-lost",
        relay._Session.connection_lost,
        keep(IfExp, "orelse"),
        "the log of the gateway does not say what the relay has refused",
        RELAYS,
    ),
    Mutant(
        "any-machine-passes-for-the-node",
        relay._Trunk.reach,
        put(keyword, "None", 3, 15),
        "who takes the address of a node reads what clients ask",
        RELAYS,
    ),
)

OF_RANKS = (
    Mutant(
        "one-request-too-many-is-open",
        inbox.Inbox.open,
        put(Compare, "{it.left} > {it.comparators[0]}"),
        "the bound on open requests is another than the one that is documented",
        STEPS,
    ),
    Mutant(
        "a-refused-request-stays-open",
        inbox.Inbox.abandon,
        drop(AugAssign),
        "after so many prompts that were too long a rank refuses everything, and never drains",
        STEPS,
    ),
    Mutant(
        "demand-only-grows",
        inbox.Inbox.close,
        drop(AugAssign, 1, 2),
        "a group that has answered everything is taken for one that hangs",
        STEPS,
    ),
    Mutant(
        "a-drain-drops-answers",
        inbox.Inbox.collect,
        keep(BoolOp, "values[0]"),
        "a rollout cuts the answers that are being written",
        STEPS,
    ),
    Mutant(
        "rdma-has-no-time",
        side_channel.SideChannel.factory,
        become(Add, Sub),
        "a group over JACCL never comes up: the time for it is over before it begins",
        ("tests/runner/group/test_side_channel.py",),
    ),
    Mutant(
        "ranks-get-each-other-s-bytes",
        side_channel.SideChannel._lead,
        put(List, "[*{it}[1:], {it}[0]]"),
        "each rank sets its queue pairs up with another rank than the one that it talks to",
        ("tests/runner/group/test_side_channel.py",),
    ),
    Mutant(
        "a-lost-peer-is-a-clean-end",
        watch.Watch._end,
        keep(BoolOp, "values[1]", 1, 3),
        "a crash is told of as a stop that somebody asked for",
        WATCH,
    ),
    Mutant(
        "who-leaves-in-order-is-lost",
        watch.Watch._watch_peer,
        always(If, 0, 1),
        "an end in order is told of as the loss of a peer",
        WATCH,
    ),
    Mutant(
        "half-a-line-of-progress",
        progress.ProgressPipe._write,
        put(IfExp, "b''"),
        "after a moment in which the shim did not read, what a rank says of itself is garbage",
        WATCH,
    ),
    Mutant(
        "a-batch-has-one-too-many",
        "reconciler.runner.decode.leader:Leader._admit",
        become(LtE, Lt),
        "memory is planned for so many sequences, and one more is computed",
        STEPS,
    ),
    Mutant(
        "what-has-ended-ends-again",
        "reconciler.runner.decode.leader:Leader._tell",
        drop(Assign, 2, 3),
        "the count of open requests falls below zero, and the bound on them is gone",
        STEPS,
    ),
)

OF_THE_GATEWAY = (
    Mutant(
        "the-busiest-group-is-asked",
        pool.Pool.choose,
        put(Call, "max({it.args[0]}, key={it.keywords[0].value})", 9, 10),
        "one group has all requests while its replica has none",
        GATEWAY,
    ),
    Mutant(
        "a-withdrawn-connection-stays",
        pool.Pool._follow,
        keep(Call, "func.value", 1, 11),
        "each group that is formed anew leaves a connection and a descriptor behind",
        GATEWAY,
    ),
    Mutant(
        "a-client-that-left-keeps-its-place",
        pool.Pool.leave,
        drop(Expr, 1, 2),
        "after as many clients that gave up as may wait, nobody may any more",
        GATEWAY,
    ),
    Mutant(
        "attempts-are-not-counted",
        gateway_progress.begin,
        keep(BinOp, "left"),
        "a request that ends every rank is sent to one group after the other for ever",
        GATEWAY,
    ),
    Mutant(
        "retry-after-in-milliseconds",
        gateway_progress.seek,
        put(Call, "1000 * {it}", 7, 17),
        "clients come back in half an hour instead of in a second",
        GATEWAY,
    ),
    Mutant(
        "a-broken-connection-stays-open",
        connection._Connection._end,
        drop(Expr, 2, 4),
        "a rank that broke the protocol keeps a descriptor of the gateway, and goes on with its requests",
        GATEWAY,
    ),
    Mutant(
        "an-old-end-ends-the-new-connection",
        connection.RankConnection._lost,
        never(If, 0, 2),
        "a connection that failed late takes the requests of the one that works with it",
        GATEWAY,
    ),
    Mutant(
        "one-controller-writes-routes-once",
        routes.RoutesFile.take,
        become(Lt, LtE),
        "the gateway follows no change of the controller that it knows",
        GATEWAY,
    ),
    Mutant(
        "an-alias-takes-another-s-name",
        routes._names,
        put(Call, "{it.func.value}.update([({it.args[0]}, {it.args[1]})])"),
        "clients that ask for one model are answered by another",
        GATEWAY,
    ),
    Mutant(
        "a-failure-overtakes-the-answer",
        run.Run.answers,
        never(If, 0, 2),
        "tokens that came before a failure are lost, and the continued answer has a gap",
        GATEWAY,
    ),
)

OF_CHANGES = (
    Mutant(
        "what-a-window-holds-comes-in",
        windows.admit,
        put(DictComp, "{{key: incoming.get(key) for key in found}}", 1, 2),
        "a change comes into force in the middle of the day that was to wait for the night",
        WINDOWS,
    ),
    Mutant(
        "a-window-does-not-hold-itself",
        windows._Gate.held,
        put(Compare, "False", 2, 5),
        "whoever is kept out by a window takes it away in the same commit",
        WINDOWS,
    ),
    Mutant(
        "an-override-opens-every-window",
        windows._blocker,
        put(Compare, "not overridden", 1, 5),
        "an override of one window lets in what another one holds",
        WINDOWS,
    ),
    Mutant(
        "a-silent-node-holds-nothing",
        capacity._emptied,
        put(Return, "continue", 0, 2),
        "a push is refused because a node that could hold it has not reported yet",
        ("tests/planning/placement/test_capacity.py",),
    ),
)

OVERSIGHTS = OF_CHANGES + OF_THE_STORE + OF_TRANSPORTS + OF_RANKS + OF_THE_GATEWAY + OF_AGENTS
