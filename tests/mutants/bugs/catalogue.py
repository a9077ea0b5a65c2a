"""The bugs that are planted, room by room.

Each is one that somebody could write: a guard left out, a stale view believed, a budget forgotten, a clock trusted.
One that no test catches is a finding: the guard is dead and goes, or a test is missing and is written.
"""

from __future__ import annotations

from ast import (
    Add,
    And,
    Assign,
    Attribute,
    AugAssign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Constant,
    Dict,
    Eq,
    Expr,
    For,
    FormattedValue,
    GtE,
    If,
    IfExp,
    In,
    JoinedStr,
    List,
    ListComp,
    LtE,
    Name,
    Or,
    Raise,
    Return,
    Starred,
    Sub,
    Subscript,
    Tuple,
    UnaryOp,
    With,
    keyword,
)

from reconciler import incidents
from reconciler.admission import removals
from reconciler.agent import server
from reconciler.agent.ranks import leftovers as agent_leftovers
from reconciler.agent.ranks import ranks, shim, vitals
from reconciler.controller import clock_gaps, incident_log, loop, notifications, publish, reconcile
from reconciler.execution import executor, handlers, proof
from reconciler.gateway.routing import routes
from reconciler.inventory import collector
from reconciler.planning import removal
from reconciler.planning.context import (
    attempt_facts,
    back_off_time,
    deadlines,
    ending,
    lost_nodes,
    membership,
    memory_ledger,
    reservations,
    tcp_ports,
    view,
    workload,
    world,
)
from reconciler.planning.diagnosis import detectors, evidence, rules
from reconciler.planning.nodes import agents, eligible
from reconciler.planning.nodes import leftovers as planning_leftovers
from reconciler.planning.placement import place, search
from reconciler.planning.plan import _held_back, _name_each_task_once, _workloads
from reconciler.planning.recovery import back_off, diagnose, reboot, rollback, stalls
from reconciler.planning.replica import adopt, form, improve, ladder, start
from reconciler.planning.transport import fallback
from reconciler.state import observed
from reconciler.status import events, model_routes
from reconciler.store import connection, schema, sqlite
from reconciler.store.tables import attempts, objects, transports
from reconciler.store.tables import events as store_events
from reconciler.store.tables import incidents as store_incidents
from tests.mutants.mutant import Mutant
from tests.mutants.operators import (
    always,
    become,
    delay,
    drop,
    follow,
    inside,
    keep,
    never,
    precede,
    put,
    respell,
)

REBOOTS = ("tests/planning/recovery/test_reboot.py",)
BACK_OFF = ("tests/planning/recovery/test_back_off.py",)
PLANNING = tuple(
    f"tests/planning/{name}.py"
    for name in (
        "replica/test_ladder",
        "replica/test_observations",
        "replica/test_adopt",
        "recovery/test_stalls",
        "placement/test_place",
        "diagnosis/test_diagnosis",
        "recovery/test_clocks",
        "replica/test_drain",
        "test_safety",
    )
)
PROPERTIES = (*PLANNING, "tests/properties")
EXECUTION = ("tests/execution",)
INCIDENTS = ("tests/incidents", "tests/store/test_incidents.py", "tests/controller/test_incident_log.py")
STORE = ("tests/store/test_store.py", "tests/store/test_fencing.py")
MIGRATIONS = (*STORE, "tests/store/test_migrations.py")
INVENTORY = ("tests/inventory",)
CONTROLLER = tuple(
    f"tests/controller/test_controller.py::test_{name}"
    for name in (
        "a_killed_controller_s_successor_adopts_the_agents_and_repeats_no_event",
        "a_controller_whose_home_is_taken_away_ends_by_itself",
        "a_node_that_is_removed_terminates_until_its_agent_has_ended",
        "a_controller_that_finds_its_nodes_obeying_another_ends",
        "a_controller_whose_store_another_opens_ends_and_changes_nothing_more",
    )
)
LIFE = tuple(
    f"tests/agent/ranks/test_life_of_a_rank.py::test_{name}"
    for name in (
        "starting_a_rank_twice_starts_one_process",
        "only_a_rank_that_has_exited_can_be_forgotten",
        "children_of_a_rank_do_not_outlive_it",
        "asking_again_only_ever_brings_the_end_closer",
    )
)
DEATHS = tuple(
    f"tests/agent/ranks/test_deaths_of_agent_and_shim.py::test_{name}"
    for name in (
        "the_end_of_a_rank_is_known_although_no_agent_was_there",
        "a_killed_shim_takes_its_rank_with_it_and_that_is_pushed",
        "a_later_process_with_the_number_of_a_rank_is_left_alone",
    )
)
LOSSES = ("tests/planning/nodes/test_quarantine.py", "tests/planning/nodes/test_leftovers.py")
FALLBACK = (
    "tests/planning/transport/test_fallback.py",
    "tests/planning/diagnosis/test_healing_table.py",
    "tests/store/test_transports.py",
)
CLOCK_GAPS = ("tests/controller/test_clock_gaps.py",)
LEFTOVERS = ("tests/agent/ranks/test_leftovers.py",)
FENCING = (
    "tests/agent/ranks/test_deaths_of_agent_and_shim.py"
    "::test_a_controller_that_was_replaced_can_change_nothing_even_after_a_restart",
)
"""Of what takes long only the tests that map to a bug."""
ROUTES = ("tests/status",)
HANGS = ("tests/agent/ranks/test_hangs.py",)

PLANNED = (
    Mutant(
        "stale-observation-believed",
        world.World.seen_since_last_write,
        put(Tuple, "({it.elts[0]}, 0)", 1, 2),
        "a decision on what was seen before the last change undoes that change",
        PLANNING,
    ),
    Mutant(
        "older-connection-believed",
        world.World.seen_since_last_write,
        put(Compare, "{it.left.elts[1]} >= {it.comparators[0].elts[1]}", 4, 5),
        "after a request whose answer was lost, what was seen over the old connection counts as newer than it",
        PLANNING,
    ),
    Mutant(
        "only-living-ranks-are-observed",
        view.WorkloadView._unseen.func,  # type: ignore[attr-defined]
        keep(BinOp, "left", 0, 1),
        "a group is judged although the node of its dead rank has not been seen since it was changed",
        PLANNING,
    ),
    Mutant(
        "a-step-in-flight-is-repeated",
        ladder._step_in_flight,
        always(),
        "while an epoch is being written another is planned; starts and stops overtake each other",
        PLANNING,
    ),
    Mutant(
        "one-rank-is-restarted",
        diagnose.symptom,
        drop(Compare, 3, 8),
        "one rank rejoins a group that has served, whose other ranks are in the middle of a collective",
        PLANNING,
    ),
    Mutant(
        "an-adopted-group-is-completed",
        diagnose.symptom,
        drop(UnaryOp, 1, 2),
        "a rank is started with an empty secret into a group that was adopted after the loss of the store",
        PROPERTIES,
    ),
    Mutant(
        "epochs-of-the-nodes-are-forgotten",
        form._record,
        put(BinOp, "{it.left.args[0].elts[0]} + 1", 1, 2),
        "after the loss of the store an epoch is given twice, and ranks of two groups pass for one",
        PLANNING,
    ),
    Mutant(
        "epochs-of-the-store-are-forgotten",
        form._record,
        put(List, "[0, {it.elts[1]}]"),
        "a replica that was released, and whose ranks were forgotten, begins with epoch 1 again",
        PLANNING,
    ),
    Mutant(
        "ports-of-living-ranks-are-reused",
        reservations._ports,
        put(Call, "range(0)", 4, 5),
        "a new group waits for the ports of ranks that no record speaks of any more",
        PLANNING,
    ),
    Mutant(
        "old-epochs-may-live",
        start.old_ranks,
        keep(If, "body[0]"),
        "ranks of the new epoch start while those of the old one hold the memory",
        PLANNING,
    ),
    Mutant(
        "the-node-s-clock-is-trusted",
        back_off.served_seconds,
        keep(Call, "args[0]", 0, 2),
        "a node whose clock is ahead makes every crash look like one after a long healthy life: no back-off",
        PLANNING,
    ),
    Mutant(
        "a-clock-set-back-keeps-waiting",
        back_off.verdict,
        never(Compare, 1, 3),
        "after the clock was set back by a day, a dead group waits a day for its next attempt",
        BACK_OFF,
    ),
    Mutant(
        "a-retry-waits-for-a-clock-set-back",
        world.due,
        drop(Compare, 1, 2),
        "after the clock was set back, steps that failed or were lost are not repeated until it has caught up",
        PLANNING,
    ),
    Mutant(
        "no-back-off",
        back_off_time.back_off_seconds,
        become(LtE, GtE),
        "a group that never comes up is started again and again without a pause",
        BACK_OFF,
    ),
    Mutant(
        "nobody-is-told-of-a-crash-loop",
        back_off.verdict,
        never(Compare, 2, 3),
        "a group that never comes up is tried every five minutes for ever, and nobody is told",
        BACK_OFF,
    ),
    Mutant(
        "what-served-is-a-crash-loop",
        back_off._failures,
        never(If, 0, 2),
        "after six kills in a day the model is away for five minutes, though every restart had worked",
        BACK_OFF,
    ),
    Mutant(
        "one-budget-for-all-classes",
        back_off._failures,
        always(Compare, 2, 5),
        "a rank that failed to load a few times lets a cable's first fault wait",
        BACK_OFF,
    ),
    Mutant(
        "a-prompt-s-deaths-are-charged",
        back_off._failures,
        always(Compare, 3, 5),
        "one client's prompts let the model's next restart wait for everybody",
        BACK_OFF,
    ),
    Mutant(
        "the-first-early-death-counts",
        back_off._failures,
        become(Sub, Add, 0, 4),
        "a group that is killed twice within a minute is away for five",
        BACK_OFF,
    ),
    Mutant(
        "an-old-wish-is-charged-to-the-new",
        back_off._tried,
        drop(Compare),
        "a changed manifest waits five minutes because the one before it was wrong",
        BACK_OFF,
    ),
    Mutant(
        "two-machines-restart-together",
        reboot._away,
        never(Constant, 3, 4),
        "half of the cluster waits for somebody at a FileVault screen",
        REBOOTS,
    ),
    Mutant(
        "an-unknown-lock-is-none",
        reboot.locked,
        drop(Compare, 2, 3),
        "a machine whose FileVault was not probed restarts, and waits for somebody to unlock it",
        REBOOTS,
    ),
    Mutant(
        "a-machine-that-serves-restarts",
        reboot._obstacle,
        drop(Call, 1, 3),
        "a machine is restarted for one deployment while it serves another",
        REBOOTS,
    ),
    Mutant(
        "a-restart-in-hand-asks-somebody",
        reboot.in_hand,
        never(If, 1, 2),
        "somebody is woken for a machine that is being restarted already",
        REBOOTS,
    ),
    Mutant(
        "a-restart-is-noted-afterwards",
        handlers.machines.reboot,
        delay(Expr, 1, 5),
        "a controller that dies right after the request restarts the machine again",
        EXECUTION,
    ),
    Mutant(
        "a-refusal-is-retried-at-once",
        ladder._heal,
        always(If, 1, 4),
        "weights that cannot be read are loaded again and again",
        PLANNING,
    ),
    Mutant(
        "the-consequence-is-blamed",
        observed._blame,
        put(IfExp, "0", 1, 2),
        "the incident names the rank that lost its peer instead of the one that crashed",
        PLANNING,
    ),
    Mutant(
        "a-failed-step-is-repeated-at-once",
        _held_back,
        always(If, 1, 2),
        "a step that fails is tried in a tight loop, over SSH",
        PLANNING,
    ),
    Mutant(
        "groups-of-one-pass-share-ports",
        _workloads,
        drop(Assign, 9, 12),
        "two groups formed in one pass on one host wait for each other's ports",
        PLANNING,
    ),
    Mutant(
        "who-alone-serves-is-stopped",
        ladder._unwanted,
        never(nth=0, of=2),
        "a deployment that gets fewer replicas loses the only one that serves",
        PLANNING,
    ),
    Mutant(
        "a-continued-rank-has-no-time",
        stalls._silence,
        keep(Call, "args[0]", 2, 4),
        "a rank that was stopped for an hour and is continued is killed before it can do a step",
        PLANNING,
    ),
    Mutant(
        "what-was-not-read-is-not-owed",
        stalls._silence,
        keep(Call, "args[0]", 1, 4),
        "a rank 0 that takes no requests takes a model away for ever, and says that all is well",
        PLANNING,
    ),
    Mutant(
        "continuations-have-no-end",
        stalls.continue_stopped,
        drop(Compare, 2, 3),
        "a rank that is stopped again and again is continued for ever and never given up",
        PROPERTIES,
    ),
    Mutant(
        "busy-is-hanging",
        deadlines.step_seconds,
        keep(BinOp, "left", 0, 3),
        "a group that reads a long prompt is killed in the middle of it",
        PLANNING,
    ),
    Mutant(
        "loading-is-failing",
        deadlines.standstill_seconds,
        keep(BinOp, "left", 2, 4),
        "weights of hundreds of gigabytes are read lazily, and the group is given up after a minute each time",
        PLANNING,
    ),
    Mutant(
        "a-stop-is-asked-in-every-pass",
        ending._ask_again,
        always(BoolOp, 1, 2),
        "a group that finishes what it has is asked to end many times a second",
        PLANNING,
    ),
    Mutant(
        "proofs-have-no-end",
        diagnose.symptom,
        drop(Compare, 6, 8),
        "a group that is ready and could not answer once is killed and loaded again",
        PLANNING,
    ),
    Mutant(
        "a-group-forms-before-all-answered",
        lost_nodes.unreported,
        never(BoolOp),
        "after the loss of the store a second group forms beside one on a node that has not answered yet",
        PLANNING,
    ),
    Mutant(
        "a-part-of-a-group-is-adopted",
        adopt._flaw,
        never(If, 5, 6),
        "after the loss of the store two of three ranks pass for a group",
        PLANNING,
    ),
    Mutant(
        "unrecorded-ranks-cost-nothing",
        memory_ledger._running,
        never(),
        "memory that ranks of an old epoch still hold is given away: the machine swaps, or panics",
        PLANNING,
    ),
    Mutant(
        "the-reserve-is-given-away",
        memory_ledger._rooms,
        keep(BinOp, "left"),
        "models take the memory that macOS itself needs, and the machine panics",
        PLANNING,
    ),
    Mutant(
        "a-host-s-memory-is-shared-twice",
        search.FreeMemory.fits,
        put(AugAssign, "{it.target} = {it.value}"),
        "two ranks are placed on one host that has memory for one",
        PLANNING,
    ),
    Mutant(
        "whoever-answers-first-decides",
        place._place,
        never(If, 0, 5),
        "a group of two is formed although the third node is only a moment late, and is formed again later",
        PLANNING,
    ),
    Mutant(
        "an-agent-is-ended-before-a-look",
        agents.decide,
        drop(Name, 27, 104),
        "the agent of a node that left is ended before anybody saw what runs there: ranks nobody watches",
        PLANNING,
    ),
    Mutant(
        "what-is-forgotten-was-seen-before",
        agents.forget,
        drop(UnaryOp, 0, 3),
        "files of a rank are removed by what its node said before it was changed, or before it was lost",
        PLANNING,
    ),
    Mutant(
        "the-memory-of-epochs-is-forgotten",
        agents._outdated,
        always(Compare, 1, 6),
        "after the loss of the store the last trace of a replica's epochs is removed from the nodes",
        PLANNING,
    ),
    Mutant(
        "a-group-is-drained-to-nowhere",
        ladder._drained,
        never(If, 3, 5),
        "a drain ends the only group of a replica although another node is about to answer",
        PLANNING,
    ),
    Mutant(
        "an-object-leaves-before-its-ranks",
        removal._of_workloads,
        never(If, 0, 4),
        "a deployment is gone from the inventory while its ranks still run",
        PLANNING,
    ),
    Mutant(
        "a-node-leaves-before-its-agent",
        removal._of_node,
        never(If, 1, 2),
        "a node is gone from the inventory while an agent runs there that nobody will end",
        PLANNING,
    ),
    Mutant(
        "a-stopped-rank-is-killed",
        "reconciler.planning.replica.ladder:LADDER",
        drop(Call, 2, 21),
        "a rank that somebody stopped by mistake costs a restart of the whole group",
        PLANNING,
    ),
    Mutant(
        "a-group-ends-before-the-routes",
        "reconciler.planning.replica.ladder:LADDER",
        drop(Call, 3, 21),
        "a controller that has just started ends a replica while clients are sent to it and to nothing else",
        PLANNING,
    ),
    Mutant(
        "an-emptied-folder-is-obeyed",
        removals.hold,
        put(BoolOp, "{it.values[1]} or not {it.values[0]}", 1, 3),
        "a branch pushed from the wrong place stops everything that people use",
        ("tests/planning/test_safety.py", "tests/controller/test_desired_state.py"),
    ),
    Mutant(
        "most-of-a-cluster-may-be-pruned",
        removals.removal,
        put(BinOp, "100 * {it.right}", 2, 3),
        "a merge that went wrong removes half of a cluster, and nobody is asked",
        PLANNING,
    ),
    Mutant(
        "a-new-alias-restarts-a-group",
        workload.hash_of,
        put(Dict, "{{**{it}, 'aliases': {it.values[3].value}.aliases}}"),
        "a change of a name drains a group and loads its weights again",
        PLANNING,
    ),
    Mutant(
        "a-secret-can-be-guessed",
        membership.secret,
        (drop(Constant, 1, 3), drop(FormattedValue, 0, 3)),
        "whoever knows the name of a deployment can join the ranks of its group",
        PLANNING,
    ),
    Mutant(
        "a-secret-is-shown",
        "reconciler.state.memory:GroupRecord.secret",
        put(keyword, "True"),
        "the secret of a group is written into logs",
        PLANNING,
    ),
    Mutant(
        "a-look-with-an-older-token-counts",
        world.World.seen_since_last_write,
        never(If, 1, 2),
        "a request that is still on its way is carried out after the look that was to show it",
        PLANNING,
    ),
)

HEALED = (
    Mutant(
        "no-word-is-bad-news",
        detectors.wedged,
        put(Compare, "not {it.left}"),
        "a probe that has not answered yet makes a machine be restarted",
        PLANNING,
    ),
    Mutant(
        "later-symptoms-explain-earlier",
        rules.diagnose,
        put(For, "for {it.target} in reversed(list({it.iter})):\n    {it.body[0]}\n    {it.body[1]}"),
        "a rank that crashes because its cable is out is restarted five times instead of going to the next transport",
        PLANNING,
    ),
    Mutant(
        "out-of-memory-is-retried-unchanged",
        "reconciler.planning.diagnosis.rules:TABLE",
        inside(Call, put(Attribute, "{it.value}.FORM", 2, 3), about=detectors.out_of_memory),
        "a model that cannot fit is loaded until the machine panics",
        PLANNING,
    ),
    Mutant(
        "the-same-remedy-for-ever",
        rules.Row.remedy_now,
        keep(IfExp, "orelse"),
        "a group whose queue pairs cannot be set up never falls back to another transport",
        PLANNING,
    ),
    Mutant(
        "other-faults-count-as-tries",
        diagnose.attempts,
        put(Compare, "True", 2, 3),
        "after a few cables that were pulled the first crash already costs the fast transport",
        PLANNING,
    ),
    Mutant(
        "tries-of-another-wish-count",
        diagnose._in_a_row,
        drop(Compare, 1, 2),
        "a corrected manifest inherits the failures of the wrong one",
        PLANNING,
    ),
    Mutant(
        "a-change-pays-for-the-one-before",
        diagnose.attempts,
        put(Compare, "False", 1, 3),
        "a change is taken back after the first group that ends with it",
        ("tests/planning/rollout/test_rollback.py",),
    ),
    Mutant(
        "an-older-group-is-adopted-for-ever",
        adopt.adopted,
        keep(IfExp, "orelse", 0, 5),
        "after a damage of the store a replica is never served again",
        PLANNING,
    ),
    Mutant(
        "an-unknown-fact-has-changed",
        attempt_facts.changes,
        (
            inside(ListComp, put(Call, "{it.func}({it.args[0]})", 1, 2)),
            inside(ListComp, put(Subscript, "{it.value}.get({it.slice})")),
        ),
        "a group that was refused for good is formed again whenever a probe does not answer",
        PLANNING,
    ),
    Mutant(
        "its-own-restart-is-a-new-fact",
        ladder._heal,
        never(If, 2, 4),
        "a model that brings its machine down is tried again because the machine has restarted",
        PLANNING,
    ),
    Mutant(
        "restarts-of-machines-go-unseen",
        evidence.restarted,
        never(Compare, 1, 2),
        "a machine that panicked is blamed on its rank, and what was known of it before is believed on",
        PLANNING,
    ),
    Mutant(
        "a-long-load-passes-for-health",
        rollback.lived_long,
        keep(Call, "args[0]", 2, 3),
        "weights that load for half an hour and crash after ten minutes are taken for good",
        BACK_OFF,
    ),
    Mutant(
        "all-replicas-come-back-together",
        back_off._jitter,
        put(Return, "return 1.0"),
        "after a power cut all groups load at the same second, again and again",
        BACK_OFF,
    ),
)

CLIMBED = (
    Mutant(
        "a-failed-transport-is-tried-again",
        fallback.obstacle,
        drop(If, 0, 2),
        "a group whose queue pairs cannot be set up is formed on them again and again",
        FALLBACK,
    ),
    Mutant(
        "a-changed-fact-frees-nothing",
        improve.forgive,
        never(If, 1, 2),
        "after a new cable a group stays on the slow transport for ever",
        FALLBACK,
    ),
    Mutant(
        "a-trial-costs-four-groups",
        "reconciler.planning.diagnosis.rules:_next_transport",
        put(BoolOp, "{it.values[0]} or {it.values[1]}", 0, 2),
        "a transport that nothing helps ends four groups at each trial",
        FALLBACK,
    ),
    Mutant(
        "a-trial-never-ends",
        improve.forgive,
        put(BoolOp, "{it.values[0]} or {it.values[1]}", 0, 1),
        "weeks after its failure, the next one of any kind costs the fast transport for a day",
        FALLBACK,
    ),
    Mutant(
        "what-is-not-known-is-fine",
        fallback._unknown_facts,
        never(If, 1, 2),
        "RDMA is tried where nobody knows whether it is on, and a protection domain is lost each time",
        FALLBACK,
    ),
    Mutant(
        "rdma-is-set-up-too-often",
        fallback._exhausted_verbs,
        never(Compare, 1, 2),
        "the last protection domain of a machine is used up, which only a restart gives back",
        FALLBACK,
    ),
    Mutant(
        "a-boot-gives-nothing-back",
        transports.Transports.note,
        respell("iif(boot_id = excluded.boot_id, count + 1, 1)", "count + 1"),
        "a machine that has restarted stays on the slow transport, for attempts of an earlier boot count",
        ("tests/store/test_transports.py",),
    ),
    Mutant(
        "the-failed-rung-is-not-noted",
        form.form,
        put(keyword, "None", 10, 13),
        "after a restart of the controller the transport that failed is tried again",
        FALLBACK,
    ),
    Mutant(
        "a-group-grows-under-load",
        improve.Improvement.due,
        drop(Attribute, 0, 2),
        "a node that is back cuts the answers that run",
        FALLBACK,
    ),
    Mutant(
        "a-group-grows-and-shrinks-on",
        improve._schedule,
        put(List, "[0.0, {it.elts[2]}]"),
        "a cable with a loose contact costs a forming a minute",
        FALLBACK,
    ),
    Mutant(
        "a-node-that-flaps-is-counted-on",
        improve._schedule,
        drop(Starred, 1, 2),
        "a group grows by a node that is gone again a moment later",
        FALLBACK,
    ),
    Mutant(
        "a-group-climbs-all-the-time",
        improve._schedule,
        never(Compare, 2, 5),
        "what comes and goes every quarter of an hour has the group formed anew each time",
        FALLBACK,
    ),
    Mutant(
        "a-cable-is-asked-for-twice",
        _name_each_task_once,
        drop(AugAssign),
        "two people are woken for one cable: for its place, and for each group that it joined",
        ("tests/planning/transport/test_link_check.py",),
    ),
)

LOST = (
    Mutant(
        "a-silent-node-is-dead",
        lost_nodes.is_lost,
        always(Compare, 0, 2),
        "a switch that restarts moves every group of the cluster, and all weights are loaded again",
        LOSSES,
    ),
    Mutant(
        "a-silent-node-is-waited-for",
        lost_nodes.is_lost,
        (never(Compare, 0, 2), become(Or, And)),
        "a deployment does not serve until somebody repairs a machine that it does not need",
        LOSSES,
    ),
    Mutant(
        "a-lost-node-of-another-clock",
        lost_nodes.is_lost,
        drop(Compare, 1, 2),
        "after the clock was set back a lost node is waited for until the clock has caught up",
        LOSSES,
    ),
    Mutant(
        "an-agent-that-is-down-is-cut-off",
        lost_nodes.cut_off,
        always(Call),
        "an agent that is being updated makes groups move, although their ranks go on",
        (*LOSSES, *PLANNING),
    ),
    Mutant(
        "what-a-lost-node-runs-is-free",
        memory_ledger.Ledger.of,
        always(If),
        "a second model is put on a machine that comes back with the first one still running",
        LOSSES,
    ),
    Mutant(
        "a-lost-node-is-chosen-again",
        eligible.CandidateNodes.classify,
        never(If, 3, 4),
        "a group that is formed without a machine is placed on that machine again",
        LOSSES,
    ),
    Mutant(
        "a-node-that-is-back-is-used-now",
        place._place,
        never(If, 1, 5),
        "new ranks are placed beside those that went on while their machine was away",
        LOSSES,
    ),
    Mutant(
        "an-agent-in-use-is-given-up",
        agents._abandon,
        drop(Name, 8, 26),
        "nobody ends the ranks of a removed node when it comes back",
        LOSSES,
    ),
    Mutant(
        "just-ended-is-gone",
        planning_leftovers.has_leftovers,
        (keep(Tuple, "elts[0]"), become(In, Eq)),
        "ranks start while the memory of those before them is still being given back",
        LOSSES,
    ),
    Mutant(
        "ranks-start-beside-remains",
        start.incomplete,
        drop(If, 2, 3),
        "a new group loads on a machine whose memory and protection domains are still held, and dies of it",
        LOSSES,
    ),
    Mutant(
        "a-rank-that-left-much-is-forgotten",
        agents.forget,
        drop(UnaryOp, 2, 3),
        "nobody knows any more which rank left the process that holds the memory",
        LOSSES,
    ),
)

EXECUTED = (
    Mutant(
        "a-lost-answer-means-not-done",
        handlers.requests.change,
        keep(BinOp, "left"),
        "a request without an answer may be carried out yet, and the next plan is made as if it never would",
        EXECUTION,
    ),
    Mutant(
        "a-lost-answer-keeps-its-connection",
        handlers.requests.change,
        drop(Expr, 3, 6),
        "the node waits for news over a connection that nobody opens anew: nothing is decided about it again",
        EXECUTION,
    ),
    Mutant(
        "a-change-is-not-remembered",
        handlers.requests.change,
        put(Call, "{it.func}({it.args[0]}, 0)", 9, 11),
        "an observation that was on its way during a change passes for one that shows it",
        EXECUTION,
    ),
    Mutant(
        "an-agent-is-noted-after-its-start",
        handlers.agents.start,
        delay(Expr, 1, 6),
        "a controller that dies in between leaves an agent that nobody ends when its node leaves",
        EXECUTION,
    ),
    Mutant(
        "an-agent-is-dropped-before-it-ends",
        handlers.agents._end,
        drop(Expr, 3, 4),
        "an agent that was told to end and goes on is nobody's any more",
        EXECUTION,
    ),
    Mutant(
        "continuing-is-noted-when-confirmed",
        handlers.ranks.go_on,
        delay(Assign, 2, 3),
        "a rank whose agent never answers is continued for ever",
        EXECUTION,
    ),
    Mutant(
        "failures-do-not-slow-down",
        executor.Executor._note,
        put(IfExp, "1", 0, 2),
        "a step that always fails is tried twice a second for ever, and its budget is never used up",
        EXECUTION,
    ),
    Mutant(
        "a-broken-answer-is-a-proof",
        proof._ask,
        put(Raise, "return Finished('', 'stop', 0, 0)"),
        "a group that accepts connections and answers nothing gets the requests of clients",
        EXECUTION,
    ),
    Mutant(
        "a-refused-answer-is-a-proof",
        proof._converse,
        precede(Raise, "return"),
        "a group whose first completion fails gets the requests of clients",
        EXECUTION,
    ),
    Mutant(
        "an-unexpected-error-is-success",
        executor.Executor._problem,
        put(JoinedStr, "''"),
        "a step that broke off in the middle passes for done, and is told as such",
        EXECUTION,
    ),
    Mutant(
        "a-fenced-controller-goes-on",
        handlers.requests.ask,
        never(),
        "a controller that its nodes no longer obey goes on planning, and tells people so",
        EXECUTION,
    ),
    Mutant(
        "a-late-request-is-still-obeyed",
        handlers.requests.change,
        drop(With),
        "a request whose answer was lost arrives a minute later and stops a rank that is new",
        EXECUTION,
    ),
    Mutant(
        "after-giving-up-more-is-begun",
        executor.Executor.launch,
        keep(IfExp, "orelse"),
        "a controller that was replaced in the middle of a pass begins the rest of its plan",
        EXECUTION,
    ),
)

STORED = (
    Mutant(
        "an-epoch-is-given-twice",
        sqlite.Store.allocate,
        keep(BinOp, "left", 1, 2),
        "two controllers write the same epoch, and both start its ranks",
        STORE,
    ),
    Mutant(
        "a-release-forgets-epochs",
        sqlite.Store.release,
        follow(Expr, "{place.body[1].body[0].value.func}('DELETE FROM epochs')", 2, 3),
        "a deployment that comes back begins with epoch 1, which old ranks have as well",
        STORE,
    ),
    Mutant(
        "an-epoch-is-not-synced",
        sqlite.Store.__init__,
        respell("FULL", "NORMAL"),
        "after a power failure the store has an older epoch than the ranks that run",
        STORE,
    ),
    Mutant(
        "any-epoch-is-proven",
        sqlite.Store.prove,
        respell("AND epoch = ?", "AND ? > 0"),
        "the answer of an old group makes the new one, which is still loading, pass for proven",
        STORE,
    ),
    Mutant(
        "ports-are-used-again",
        tcp_ports.first_ports,
        always(If, 0, 1),
        "a group gets the ports of another one that lives",
        ("tests/planning/context/test_tcp_ports.py",),
    ),
    Mutant(
        "a-token-is-not-above-the-nodes",
        sqlite.Store.renew,
        keep(Call, "args[0]", 1, 4),
        "after the loss of the store the controller is fenced out of its own nodes",
        STORE,
    ),
    Mutant(
        "what-came-back-is-removed",
        objects.Objects.remove,
        respell(" AND deleted_at IS NOT NULL", ""),
        "an object that a new commit brings back in the last moment is pruned",
        STORE,
    ),
    Mutant(
        "a-restored-store-goes-back",
        sqlite.Store.outgrow,
        respell("max(last, excluded.last)", "excluded.last"),
        "after a restore epochs are given again that ranks have already",
        STORE,
    ),
    Mutant(
        "attempts-are-never-dropped",
        attempts.Attempts.note,
        respell("OFFSET ", "OFFSET 1000 * "),
        "the store of a group that dies for weeks grows without end",
        STORE,
    ),
    Mutant(
        "a-fact-is-told-again",
        store_events.Events.append,
        respell("IGNORE", "REPLACE"),
        "every restart of the controller tells of all ended ranks anew",
        STORE,
    ),
    Mutant(
        "events-have-no-end",
        store_events.Events.append,
        respell("- ", "- 1000 * "),
        "the store grows until the disk is full",
        STORE,
    ),
    Mutant(
        "a-newer-store-is-opened",
        schema.version_of,
        never(),
        "after a downgrade the older program writes what the newer one no longer understands",
        MIGRATIONS,
    ),
    Mutant(
        "a-migration-keeps-no-copy",
        schema.migrate,
        never(),
        "there is no way back from an upgrade",
        MIGRATIONS,
    ),
    Mutant(
        "a-damaged-store-is-used",
        schema.check,
        never(),
        "a damaged store fails in the middle of a pass, after some of its steps",
        MIGRATIONS,
    ),
    Mutant(
        "a-deposed-controller-writes",
        connection.Connection.verify,
        never(If, 2, 3),
        "a controller that was replaced goes on writing epochs beside its successor",
        STORE,
    ),
    Mutant(
        "a-taken-store-is-written-to",
        connection.Connection.verify,
        never(If, 1, 3),
        "after a restore the old controller writes its epochs into a file that nobody reads",
        STORE,
    ),
    Mutant(
        "writing-does-not-look-who-writes",
        connection.Connection.writing,
        drop(Expr, 2, 4),
        "between a look and a write another controller takes over, and both have written",
        STORE,
    ),
)

KEPT_BY_AGENTS = (
    Mutant(
        "an-older-token-is-admitted",
        server.Fence.admits,
        always(Compare, 2, 3),
        "a controller that was replaced stops the ranks that its successor has started",
        FENCING,
    ),
    Mutant(
        "the-token-is-not-kept",
        server.Fence.admits,
        drop(Expr, 1, 2),
        "after the restart of an agent a controller that was replaced is let in again",
        FENCING,
    ),
    Mutant(
        "a-rank-is-started-twice",
        ranks.Ranks.start,
        put(If, "{it.test.comparators[0]}.pop({it.test.left}, None)"),
        "a request that is repeated after a lost answer starts a second process of the same rank",
        LIFE,
    ),
    Mutant(
        "another-process-is-killed",
        ranks.Ranks._resolve_without_shim,
        keep(Compare, "left", 2, 4),
        "a process that was given the number of a dead rank is killed",
        DEATHS,
    ),
    Mutant(
        "a-rank-is-dead-when-its-shim-is",
        ranks.Ranks._resolve_without_shim,
        drop(Expr, 7, 11),
        "the shim died, and its rank goes on: holding the memory, and writing to clients",
        DEATHS,
    ),
    Mutant(
        "a-living-rank-is-forgotten",
        server.Agent._forget,
        never(),
        "a rank loses its directory while it runs: no controller ever hears of it again",
        LIFE,
    ),
    Mutant(
        "an-answer-is-older-than-the-change",
        server.Agent._attempt,
        put(Call, "{it.func}({it.args[0]} - 1)", 4, 5),
        "what was seen before a rank was started passes for news of after it: the rank is missed and started again",
        EXECUTION,
    ),
    Mutant(
        "children-outlive-their-rank",
        shim.Shim._end,
        drop(Expr, 1, 5),
        "what a rank has started keeps its memory and its port after its end",
        LIFE,
    ),
    Mutant(
        "asking-again-gives-more-time",
        shim.Shim._terminate,
        keep(If, "orelse[0]", 2, 3),
        "a rank that hangs is asked to end in every pass and so never killed",
        LIFE,
    ),
    Mutant(
        "an-exit-is-not-on-disk",
        shim.Shim._change,
        drop(Expr, 1, 4),
        "how a rank ended while no agent was there is never known",
        DEATHS,
    ),
    Mutant(
        "sleep-is-silence",
        vitals.Vitals.tick,
        put(Call, "max({it.args[0]}, 0.0)", 0, 2),
        "a machine that was asleep wakes up with all its ranks given up for hanging",
        HANGS,
    ),
    Mutant(
        "idle-is-hanging",
        vitals.Vitals.tick,
        always(BoolOp, 0, 4),
        "a group that nobody asks anything is killed every minute",
        HANGS,
    ),
    Mutant(
        "any-look-counts-as-the-newest",
        server.Agent._observe,
        always(),
        "a look of a controller that was replaced passes for one that keeps late requests out",
        (
            "tests/agent/ranks/test_deaths_of_agent_and_shim.py::test_a_controller_that_was_replaced_can_change_nothing_even_after_a_restart",
            *EXECUTION,
        ),
    ),
    Mutant(
        "what-is-left-is-looked-at-once",
        ranks.Ranks._find_leftovers,
        put(Expr, "return", 1, 2),
        "a node whose memory was given back after a minute stays out until its agent is restarted",
        LEFTOVERS,
    ),
    Mutant(
        "a-stranger-s-port-is-the-rank-s",
        agent_leftovers._find_on_linux,
        drop(If),
        "a port that somebody else has taken since keeps a node out for ever",
        LEFTOVERS,
    ),
    Mutant(
        "who-left-its-session-is-not-found",
        agent_leftovers._processes_of,
        drop(Compare, 1, 2),
        "a process that a rank has started and left behind goes on holding its memory, unseen",
        LEFTOVERS,
    ),
    Mutant(
        "a-number-taken-over-is-a-remnant",
        agent_leftovers._processes_of,
        drop(UnaryOp, 1, 2),
        "a process that was given the number of a dead rank keeps its node out",
        LEFTOVERS,
    ),
)

SEEN = (
    Mutant(
        "connections-have-one-number",
        collector.Collector._listen,
        put(Assign, "{it.targets[0]} = 1", 0, 10),
        "the reports of a restarted agent begin with a low number and are taken for old ones for ever",
        INVENTORY,
    ),
    Mutant(
        "a-push-is-lost",
        collector.Collector._listen,
        delay(Expr, 1, 7, by=4),
        "what changes while a report is on its way is seen a quarter of a minute later",
        INVENTORY,
    ),
    Mutant(
        "a-silence-is-no-news",
        "reconciler.inventory.changes:SILENCE_SECONDS",
        put(Constant, "1e9"),
        "a hang is found only when a pass is due for another reason",
        INVENTORY,
    ),
    Mutant(
        "a-lost-node-counts-as-reached",
        collector.Collector._on_lost,
        drop(keyword, 0, 6),
        "clients are sent to a node that nobody can reach",
        INVENTORY,
    ),
    Mutant(
        "no-answer-is-an-agent-down",
        collector.Collector._on_lost,
        keep(IfExp, "orelse", 0, 3),
        "clients wait on a machine that is gone, for its agent is only thought to be down",
        INVENTORY,
    ),
    Mutant(
        "each-try-begins-the-silence-anew",
        collector.Collector._on_lost,
        keep(IfExp, "body", 2, 3),
        "a machine that is gone is never lost: each attempt to reach it counts as the first",
        INVENTORY,
    ),
)

CONTROLLED = (
    Mutant(
        "a-deposed-controller-comes-back",
        reconcile._outrank,
        drop(Expr, 1, 4),
        "two controllers outbid each other for ever, each undoing what the other does",
        CONTROLLER,
    ),
    Mutant(
        "routes-are-cleared-at-the-start",
        reconcile._ready_to_publish,
        drop(Attribute, 3, 6),
        "every restart of the controller takes all groups out of the gateway for a moment",
        CONTROLLER,
    ),
    Mutant(
        "what-left-is-no-longer-watched",
        reconcile._watch,
        put(BinOp, "desired.nodes.keys()"),
        "ranks and the agent of a node that was removed are never ended",
        CONTROLLER,
    ),
    Mutant(
        "nobody-looks-after-the-home",
        loop.Loop._watch_identity,
        never(If, 1, 2),
        "a controller whose home was taken away goes on beside the next one",
        ("tests/controller/test_loop.py", *CONTROLLER),
    ),
    Mutant(
        "a-back-off-is-slept-through",
        loop.Loop._sleep,
        keep(Call, "args[0].args[0].elts[0]", 2, 6),
        "what is due in a second is done after ten",
        ("tests/controller/test_loop.py",),
    ),
    Mutant(
        "a-controller-that-is-outbid-stays",
        reconcile._outrank,
        never(If, 1, 3),
        "two controllers take turns, each stopping what the other has started",
        CONTROLLER,
    ),
    Mutant(
        "routes-are-written-unfenced",
        publish.Publisher._route,
        put(With, "if True:\n    {it.body[0]}"),
        "a controller that was replaced has the last word on where clients are sent",
        ("tests/controller/test_publish.py",),
    ),
    Mutant(
        "sleep-is-no-clock-gap",
        clock_gaps.ClockGaps.check,
        keep(Call, "args[1]", 3, 7),
        "a controller wakes up and goes on with what it saw before, while another has taken over",
        CLOCK_GAPS,
    ),
    Mutant(
        "a-clock-set-back-is-no-clock-gap",
        clock_gaps.ClockGaps.check,
        keep(Call, "args[0]", 4, 7),
        "after the clock was set back what waits in memory waits as much longer",
        CLOCK_GAPS,
    ),
    Mutant(
        "after-a-clock-gap-old-news-counts",
        reconcile._renew,
        drop(Expr, 5, 6),
        "what was seen before an hour of sleep is what is decided on after it",
        CLOCK_GAPS,
    ),
)

INCIDENT_LOG = (
    Mutant(
        "an-incident-ends-before-it-serves",
        incidents._end,
        drop(Compare, 2, 7),
        "an outage is told as over while the group is still loading",
        INCIDENTS,
    ),
    Mutant(
        "what-flaps-is-new-each-time",
        incidents._passed,
        always(Compare, 2, 5),
        "a cable with a loose contact sends a message every few seconds",
        INCIDENTS,
    ),
    Mutant(
        "a-person-is-asked-in-every-pass",
        incidents._update,
        drop(Compare, 4, 5),
        "what only a person can mend is reported again and again until nobody reads it",
        INCIDENTS,
    ),
    Mutant(
        "an-unread-source-ends-incidents",
        incidents.follow,
        drop(UnaryOp),
        "each restart of the controller tells that nobody wants what is broken, and opens it anew",
        INCIDENTS,
    ),
    Mutant(
        "incidents-share-a-number",
        store_incidents.Incidents.put,
        put(List, "[0, {it.elts[1]}]"),
        "two incidents have one number, and the story of one overwrites that of the other",
        INCIDENTS,
    ),
    Mutant(
        "an-unwritten-incident-is-lost",
        incident_log.IncidentLog.follow,
        drop(Return),
        "what went wrong while the disk was full is never told",
        INCIDENTS,
    ),
    Mutant(
        "a-message-is-tried-for-ever",
        notifications.Notifications._failed,
        never(If, 1, 2),
        "a webhook that is gone is asked for ever, and no later message gets through",
        ("tests/controller/test_notifications.py",),
    ),
    Mutant(
        "an-attempt-is-not-counted-first",
        notifications.Notifications._begin,
        drop(Expr, 0, 2),
        "a controller that dies while it sends a message sends it again after each restart",
        ("tests/controller/test_notifications.py",),
    ),
)

PUBLISHED = (
    Mutant(
        "what-is-not-proven-is-routed",
        model_routes.serving,
        drop(Compare, 6, 7),
        "clients are sent to a group that has never given an answer",
        ROUTES,
    ),
    Mutant(
        "a-part-of-a-group-is-routed",
        model_routes.serving,
        put(Call, "any({it.args[0]})", 8, 9),
        "clients are sent to a group of which a rank has died",
        ROUTES,
    ),
    Mutant(
        "ranks-elsewhere-are-the-group-s",
        observed.Observed.group,
        put(Compare, "{it.comparators[0].value.slice.lower} < len({it.comparators[0].value.value})", 2, 3),
        "a rank of the same number on another node, from before a restore, passes for one of the group",
        (*PLANNING, *ROUTES),
    ),
    Mutant(
        "a-condition-is-told-in-every-pass",
        events._changes,
        drop(Compare, 1, 6),
        "what a person must fix is reported many times a minute",
        ROUTES,
    ),
    Mutant(
        "routes-outlive-their-ranks",
        model_routes.routes,
        drop(If),
        "while everything is being stopped clients are sent to ranks that end",
        ROUTES,
    ),
    Mutant(
        "older-routes-replace-newer-ones",
        routes.RoutesFile.take,
        never(If),
        "the gateway follows a controller that was replaced, to ranks that were stopped",
        ("tests/gateway/test_process.py",),
    ),
    Mutant(
        "a-silent-node-keeps-its-route",
        model_routes.serving,
        never(If, 0, 2),
        "clients wait for answers of a machine that nobody can reach",
        (*ROUTES, *LOSSES),
    ),
    Mutant(
        "two-epochs-are-routed-in-turn",
        model_routes.serving,
        never(If, 1, 2),
        "with an older copy of the store clients are sent to a group that is about to make room",
        ("tests/planning/replica/test_adopt.py",),
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    PLANNED
    + HEALED
    + CLIMBED
    + LOST
    + EXECUTED
    + STORED
    + KEPT_BY_AGENTS
    + SEEN
    + CONTROLLED
    + PUBLISHED
    + INCIDENT_LOG
)
