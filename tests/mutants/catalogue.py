"""The bugs that are planted, room by room.

Each is one that somebody could write: a guard left out, a stale view believed, a budget forgotten, a clock trusted.
One that no test catches is a finding: the guard is dead and goes, or a test is missing and is written.
"""

from __future__ import annotations

from .mutant import Mutant

PLANNING = ("tests/planning",)
PROPERTIES = ("tests/planning", "tests/properties")
EXECUTION = ("tests/execution",)
STORE = ("tests/store",)
INVENTORY = ("tests/inventory",)
CONTROLLER = tuple(
    f"tests/controller/test_controller.py::test_{name}"
    for name in (
        "a_killed_controller_s_successor_adopts_the_agents_and_repeats_no_event",
        "a_controller_whose_home_is_taken_away_ends_by_itself",
        "a_node_that_is_removed_terminates_until_its_agent_has_ended",
    )
)
LIFE = tuple(
    f"tests/agent/test_life_of_a_rank.py::test_{name}"
    for name in (
        "starting_a_rank_twice_starts_one_process",
        "only_a_rank_that_has_exited_can_be_forgotten",
        "children_of_a_rank_do_not_outlive_it",
        "asking_again_only_ever_brings_the_end_closer",
    )
)
DEATHS = tuple(
    f"tests/agent/test_deaths_of_agent_and_shim.py::test_{name}"
    for name in (
        "the_end_of_a_rank_is_known_although_no_agent_was_there",
        "a_killed_shim_takes_its_rank_with_it_and_that_is_pushed",
        "a_later_process_with_the_number_of_a_rank_is_left_alone",
    )
)
FENCING = (
    "tests/agent/test_deaths_of_agent_and_shim.py"
    "::test_a_controller_that_was_replaced_can_change_nothing_even_after_a_restart",
)
"""Of what takes long only the tests that map to a bug."""
ROUTES = ("tests/status",)
HANGS = ("tests/agent/test_hangs.py",)

PLANNED = (
    Mutant(
        "stale-observation-believed",
        "reconciler/planning/world.py",
        ">= (write.link, write.sequence)",
        ">= (write.link, 0)",
        "a decision on what was seen before the last change undoes that change",
        PLANNING,
    ),
    Mutant(
        "older-connection-believed",
        "reconciler/planning/world.py",
        "(node.link, node.report.sequence) >= (write.link, write.sequence)",
        "node.report.sequence >= write.sequence",
        "after a request whose answer was lost, what was seen over the old connection counts as newer than it",
        PLANNING,
    ),
    Mutant(
        "only-living-ranks-are-observed",
        "reconciler/planning/replica.py",
        "{rank.node for rank in view.alive} | set(view.record.members if view.record else ())",
        "{rank.node for rank in view.alive}",
        "a group is judged although the node of its dead rank has not been seen since it was changed",
        PLANNING,
    ),
    Mutant(
        "a-step-in-flight-is-repeated",
        "reconciler/planning/replica.py",
        'if f"replica/{view.replica}" not in view.world.memory.in_flight:',
        "if True:",
        "while an epoch is being written another is planned; starts and stops overtake each other",
        PLANNING,
    ),
    Mutant(
        "one-rank-is-restarted",
        "reconciler/planning/faults.py",
        "if missing and (record.proven_at is not None or not record.secret):",
        "if missing and not record.secret:",
        "one rank rejoins a group that has served, whose other ranks are in the middle of a collective",
        PLANNING,
    ),
    Mutant(
        "an-adopted-group-is-completed",
        "reconciler/planning/faults.py",
        "if missing and (record.proven_at is not None or not record.secret):",
        "if missing and record.proven_at is not None:",
        "a rank is started with an empty secret into a group that was adopted after the loss of the store",
        PROPERTIES,
    ),
    Mutant(
        "epochs-of-the-nodes-are-forgotten",
        "reconciler/planning/replica.py",
        "max([memory.last_epochs.get(view.replica, 0), *seen]) + 1",
        "memory.last_epochs.get(view.replica, 0) + 1",
        "after the loss of the store an epoch is given twice, and ranks of two groups pass for one",
        PLANNING,
    ),
    Mutant(
        "epochs-of-the-store-are-forgotten",
        "reconciler/planning/replica.py",
        "max([memory.last_epochs.get(view.replica, 0), *seen]) + 1",
        "max([0, *seen]) + 1",
        "a replica that was released, and whose ranks were forgotten, begins with epoch 1 again",
        PLANNING,
    ),
    Mutant(
        "ports-of-living-ranks-are-reused",
        "reconciler/planning/replica.py",
        "        if rank.alive:\n            yield range(rank.report.port, rank.report.port + rank.report.size + 1)",
        "        if rank.alive:\n            yield range(0)",
        "a new group waits for the ports of ranks that no record speaks of any more",
        PLANNING,
    ),
    Mutant(
        "old-epochs-may-live",
        "reconciler/planning/replica.py",
        "    if not old:\n        return None\n",
        "    return None\n",
        "ranks of the new epoch start while those of the old one hold the memory",
        PLANNING,
    ),
    Mutant(
        "the-node-s-clock-is-trusted",
        "reconciler/planning/replica.py",
        "_failures(record, min(fault.at, view.world.now))",
        "_failures(record, fault.at)",
        "a node whose clock is ahead makes every crash look like one after a long healthy life: no back-off",
        PLANNING,
    ),
    Mutant(
        "a-clock-set-back-keeps-waiting",
        "reconciler/planning/replica.py",
        "if not record.created_at <= view.world.now < until:",
        "if not view.world.now < until:",
        "after the clock was set back by a day, a dead group waits a day for its next attempt",
        PLANNING,
    ),
    Mutant(
        "a-retry-waits-for-a-clock-set-back",
        "reconciler/planning/world.py",
        "at <= now or at - now > CLOCK_JUMP_SECONDS",
        "at <= now",
        "after the clock was set back, steps that failed or were lost are not repeated until it has caught up",
        PLANNING,
    ),
    Mutant(
        "no-back-off",
        "reconciler/planning/replica.py",
        "return 0.0 if failures == 0 else",
        "return 0.0 if failures >= 0 else",
        "a group that dies at once is restarted thirty times in ninety seconds",
        PLANNING,
    ),
    Mutant(
        "a-refusal-is-retried-at-once",
        "reconciler/planning/replica.py",
        "if fault.remedy is not Remedy.REFUSE:",
        "if True:",
        "weights that cannot be read are loaded again and again",
        PLANNING,
    ),
    Mutant(
        "the-consequence-is-blamed",
        "reconciler/planning/healing/scene.py",
        "_CONSEQUENCES.get(ended.code or 0, 0) if ended.signal is None else 0,",
        "0,",
        "the incident names the rank that lost its peer instead of the one that crashed",
        PLANNING,
    ),
    Mutant(
        "a-failed-step-is-repeated-at-once",
        "reconciler/planning/plan.py",
        "if failure is None or due(failure.retry_at, now):",
        "if True:",
        "a step that fails is tried in a tight loop, over SSH",
        PLANNING,
    ),
    Mutant(
        "groups-of-one-pass-share-ports",
        "reconciler/planning/plan.py",
        "        world = _after(world, decision)\n",
        "",
        "two groups formed in one pass on one host wait for each other's ports",
        PLANNING,
    ),
    Mutant(
        "a-continued-rank-has-no-time",
        "reconciler/planning/stalls.py",
        "    return min(silence, _since_continued(view, ranks))",
        "    return silence",
        "a rank that was stopped for an hour and is continued is killed before it can do a step",
        PLANNING,
    ),
    Mutant(
        "continuations-have-no-end",
        "reconciler/planning/stalls.py",
        "if rank.report.stopped and len(_continued(view, rank)) < CONTINUATIONS_MAX",
        "if rank.report.stopped",
        "a rank that is stopped again and again is continued for ever and never given up",
        PROPERTIES,
    ),
    Mutant(
        "busy-is-hanging",
        "reconciler/planning/deadlines.py",
        "return stall_after * (1 + step_tokens / PREFILL_TOKENS)",
        "return stall_after",
        "a group that reads a long prompt is killed in the middle of it",
        PLANNING,
    ),
    Mutant(
        "loading-is-failing",
        "reconciler/planning/deadlines.py",
        "LOADING_SECONDS + share_bytes / LOADING_BYTES_PER_SECOND",
        "LOADING_SECONDS",
        "weights of hundreds of gigabytes are read lazily, and the group is given up after a minute each time",
        PLANNING,
    ),
    Mutant(
        "a-stop-is-asked-in-every-pass",
        "reconciler/planning/stopping.py",
        "return before is None or due(before.void_at, now) or",
        "return True or",
        "a group that finishes what it has is asked to end many times a second",
        PLANNING,
    ),
    Mutant(
        "proofs-have-no-end",
        "reconciler/planning/faults.py",
        "proof.attempts < PROOFS_MAX or ",
        "",
        "a group that is ready and could not answer once is killed and loaded again",
        PLANNING,
    ),
    Mutant(
        "a-group-forms-before-all-answered",
        "reconciler/planning/adoption.py",
        "    memory = view.world.memory\n    return sorted(",
        "    memory = view.world.memory\n    return [] and sorted(",
        "after the loss of the store a second group forms beside one on a node that has not answered yet",
        PLANNING,
    ),
    Mutant(
        "a-part-of-a-group-is-adopted",
        "reconciler/planning/adoption.py",
        "if [rank.report.id.rank for rank in alive] != list(range(first.size)):",
        "if False:",
        "after the loss of the store two of three ranks pass for a group",
        PLANNING,
    ),
    Mutant(
        "unrecorded-ranks-cost-nothing",
        "reconciler/planning/ledger.py",
        "if rank.alive and (known is None or rank.report.id.epoch != known.epoch):",
        "if False:",
        "memory that ranks of an old epoch still hold is given away: the machine swaps, or panics",
        PLANNING,
    ),
    Mutant(
        "the-reserve-is-given-away",
        "reconciler/planning/ledger.py",
        "return report.memory_bytes - self._reserves.get(host, 0) - (self._charged[host] - own)",
        "return report.memory_bytes - (self._charged[host] - own)",
        "models take the memory that macOS itself needs, and the machine panics",
        PLANNING,
    ),
    Mutant(
        "a-host-s-memory-is-shared-twice",
        "reconciler/planning/placement.py",
        "if len(chosen) < size and need * (beside + 1) <= ledger.free(name, replica):",
        "if len(chosen) < size and need <= ledger.free(name, replica):",
        "two ranks are placed on one host that has memory for one",
        PLANNING,
    ),
    Mutant(
        "whoever-answers-first-decides",
        "reconciler/planning/placement.py",
        "    if awaited:\n",
        "    if False:\n",
        "a group of two is formed although the third node is only a moment late, and is formed again later",
        PLANNING,
    ),
    Mutant(
        "an-agent-is-ended-before-a-look",
        "reconciler/planning/nodes.py",
        "needed = wanted or tied or unknown",
        "needed = wanted or tied",
        "the agent of a node that left is ended before anybody saw what runs there: ranks nobody watches",
        PLANNING,
    ),
    Mutant(
        "what-is-forgotten-was-seen-before",
        "reconciler/planning/nodes.py",
        "if world.desired.stopping or not world.fresh(name):",
        "if world.desired.stopping:",
        "files of a rank are removed by what its node said before it was changed, or before it was lost",
        PLANNING,
    ),
    Mutant(
        "the-memory-of-epochs-is-forgotten",
        "reconciler/planning/nodes.py",
        "        return replica not in world.desired.replicas()\n",
        "        return True\n",
        "after the loss of the store the last trace of a replica's epochs is removed from the nodes",
        PLANNING,
    ),
    Mutant(
        "a-group-is-drained-to-nowhere",
        "reconciler/planning/replica.py",
        "    if decision.waiting:  # whether there is another place is not known yet",
        "    if False:",
        "a drain ends the only group of a replica although another node is about to answer",
        PLANNING,
    ),
    Mutant(
        "an-object-leaves-before-its-ranks",
        "reconciler/planning/removal.py",
        "if rank.alive and rank.replica.key == key:",
        "if False:",
        "a deployment is gone from the inventory while its ranks still run",
        PLANNING,
    ),
    Mutant(
        "a-node-leaves-before-its-agent",
        "reconciler/planning/removal.py",
        'if key.name in world.memory.agents or f"node/{key.name}" in world.memory.in_flight:',
        "if False:",
        "a node is gone from the inventory while an agent runs there that nobody will end",
        PLANNING,
    ),
)

HEALED = (
    Mutant(
        "no-word-is-bad-news",
        "reconciler/planning/healing/sights.py",
        "if facts.verbs_answer is False:",
        "if not facts.verbs_answer:",
        "a probe that has not answered yet makes a machine be restarted",
        PLANNING,
    ),
    Mutant(
        "later-symptoms-explain-earlier",
        "reconciler/planning/healing/table.py",
        "    for row in TABLE:\n        sighting = row.seen(scene)",
        "    for row in reversed(TABLE):\n        sighting = row.seen(scene)",
        "a rank that crashes because its cable is out is restarted five times instead of going to the next transport",
        PLANNING,
    ),
    Mutant(
        "out-of-memory-is-retried-unchanged",
        "reconciler/planning/healing/table.py",
        "FaultClass.GPU_FAULT, sights.out_of_memory, Remedy.REFUSE,",
        "FaultClass.GPU_FAULT, sights.out_of_memory, Remedy.FORM,",
        "a model that cannot fit is loaded until the machine panics",
        PLANNING,
    ),
    Mutant(
        "a-planned-restart-is-charged",
        "reconciler/planning/healing/table.py",
        "Row(FaultClass.REBOOT, sights.rebooted, Remedy.FORM, counted=False),",
        "Row(FaultClass.REBOOT, sights.rebooted, Remedy.FORM),",
        "maintenance of a few machines uses up the budget of restarts, and the deployment stalls",
        PLANNING,
    ),
    Mutant(
        "a-cable-pulled-is-charged",
        "reconciler/planning/healing/table.py",
        "FaultClass.LINK_DOWN, sights.link_down, Remedy.LOWER_RUNG, 1, Remedy.FORM_WITHOUT, counted=False,",
        "FaultClass.LINK_DOWN, sights.link_down, Remedy.LOWER_RUNG, 1, Remedy.FORM_WITHOUT,",
        "a cable that a person pulls and puts back uses up the budget of restarts",
        PLANNING,
    ),
    Mutant(
        "the-same-remedy-for-ever",
        "reconciler/planning/faults.py",
        "return row.then if row.then is not None and 0 < row.after <= tried else row.remedy",
        "return row.remedy",
        "a group whose queue pairs cannot be set up never falls back to another transport",
        PLANNING,
    ),
    Mutant(
        "other-faults-count-as-tries",
        "reconciler/planning/faults.py",
        "return attempt.fault is fault and attempt.at > since and attempt.wish == view.wish",
        "return attempt.at > since and attempt.wish == view.wish",
        "after a few cables that were pulled the first crash already costs the fast transport",
        PLANNING,
    ),
    Mutant(
        "tries-of-another-wish-count",
        "reconciler/planning/faults.py",
        "return attempt.fault is fault and attempt.at > since and attempt.wish == view.wish",
        "return attempt.fault is fault and attempt.at > since",
        "a corrected manifest inherits the failures of the wrong one",
        PLANNING,
    ),
    Mutant(
        "an-unknown-fact-has-changed",
        "reconciler/planning/circumstances.py",
        '        f"{what}: {old[what]} → {now[what]}"\n'
        "        for what in sorted(old.keys() & now.keys())\n"
        "        if old[what] != now[what]\n",
        '        f"{what}: {old.get(what)} → {now.get(what)}"\n'
        "        for what in sorted(old.keys() | now.keys())\n"
        "        if old.get(what) != now.get(what)\n",
        "a group that was refused for good is formed again whenever a probe does not answer",
        PLANNING,
    ),
    Mutant(
        "its-own-restart-is-a-new-fact",
        "reconciler/planning/replica.py",
        "    if fault.fault is FaultClass.REBOOT:\n",
        "    if False:\n",
        "a model that brings its machine down is tried again because the machine has restarted",
        PLANNING,
    ),
    Mutant(
        "restarts-of-machines-go-unseen",
        "reconciler/planning/healing/scene.py",
        "and self.boots.get(node.name, node.report.boot_id) != node.report.boot_id",
        "and False",
        "a machine that panicked is blamed on its rank, and what was known of it before is believed on",
        PLANNING,
    ),
)

EXECUTED = (
    Mutant(
        "a-lost-answer-means-not-done",
        "reconciler/execution/handlers.py",
        "tools.writes[name] = Write(number + 1, 0)",
        "tools.writes[name] = Write(number, 0)",
        "a request without an answer may be carried out yet, and the next plan is made as if it never would",
        EXECUTION,
    ),
    Mutant(
        "a-lost-answer-keeps-its-connection",
        "reconciler/execution/handlers.py",
        "        await link.close()\n        raise",
        "        raise",
        "the node waits for news over a connection that nobody opens anew: nothing is decided about it again",
        EXECUTION,
    ),
    Mutant(
        "a-change-is-not-remembered",
        "reconciler/execution/handlers.py",
        "tools.writes[name] = Write(number, done.sequence)",
        "tools.writes[name] = Write(number, 0)",
        "an observation that was on its way during a change passes for one that shows it",
        EXECUTION,
    ),
    Mutant(
        "an-agent-is-noted-after-its-start",
        "reconciler/execution/handlers.py",
        "            tools.groups.keep_agent(step.node)\n            await tools.start_agent(step.node)\n",
        "            await tools.start_agent(step.node)\n            tools.groups.keep_agent(step.node)\n",
        "a controller that dies in between leaves an agent that nobody ends when its node leaves",
        EXECUTION,
    ),
    Mutant(
        "an-agent-is-dropped-before-it-ends",
        "reconciler/execution/handlers.py",
        "    await tools.links.lose(name)\n    tools.groups.drop_agent(name)",
        "    tools.groups.drop_agent(name)",
        "an agent that was told to end and goes on is nobody's any more",
        EXECUTION,
    ),
    Mutant(
        "continuing-is-noted-when-confirmed",
        "reconciler/execution/handlers.py",
        "            tools.continued[step.id] = known[-CONTINUATIONS_KEPT:]\n"
        "            await _change(tools, step.node, node.ContinueRank(tools.token, step.id))\n",
        "            await _change(tools, step.node, node.ContinueRank(tools.token, step.id))\n"
        "            tools.continued[step.id] = known[-CONTINUATIONS_KEPT:]\n",
        "a rank whose agent never answers is continued for ever",
        EXECUTION,
    ),
    Mutant(
        "failures-do-not-slow-down",
        "reconciler/execution/executor.py",
        "attempts = before.attempts + 1 if before else 1",
        "attempts = 1",
        "a step that always fails is tried twice a second for ever, and its budget is never used up",
        EXECUTION,
    ),
    Mutant(
        "a-broken-answer-is-a-proof",
        "reconciler/execution/proof.py",
        '        raise Unreachable("rank 0 closed the connection before its answer was complete")\n',
        "        return\n",
        "a group that accepts connections and answers nothing gets the requests of clients",
        EXECUTION,
    ),
    Mutant(
        "a-refused-answer-is-a-proof",
        "reconciler/execution/proof.py",
        "            if isinstance(message, Failed):\n",
        "            if isinstance(message, Failed):\n                return\n",
        "a group whose first completion fails gets the requests of clients",
        EXECUTION,
    ),
)

STORED = (
    Mutant(
        "an-epoch-is-given-twice",
        "reconciler/store/sqlite.py",
        "self._record(group, group.epoch - 1)",
        "self._record(group, group.epoch)",
        "two controllers write the same epoch, and both start its ranks",
        STORE,
    ),
    Mutant(
        "a-release-forgets-epochs",
        "reconciler/store/sqlite.py",
        '"DELETE FROM groups WHERE deployment = ? AND replica = ?", (replica.deployment, replica.index)\n        )',
        '"DELETE FROM groups WHERE deployment = ? AND replica = ?", (replica.deployment, replica.index)\n        )\n'
        '        self._db.execute("DELETE FROM epochs")',
        "a deployment that comes back begins with epoch 1, which old ranks have as well",
        STORE,
    ),
    Mutant(
        "an-epoch-is-not-synced",
        "reconciler/store/sqlite.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
        "after a power failure the store has an older epoch than the ranks that run",
        STORE,
    ),
    Mutant(
        "any-epoch-is-proven",
        "reconciler/store/sqlite.py",
        '"UPDATE groups SET proven_at = ? WHERE deployment = ? AND replica = ? AND epoch = ?",',
        '"UPDATE groups SET proven_at = ? WHERE deployment = ? AND replica = ? AND epoch >= ?",',
        "the answer of an old group makes the new one, which is still loading, pass for proven",
        STORE,
    ),
    Mutant(
        "ports-are-used-again",
        "reconciler/store/sqlite.py",
        'self._set_counter("next_port", group.port + len(group.members) + 1)',
        'self._set_counter("next_port", group.port)',
        "a straggler of the last attempt finds the ports of the next one, and joins it",
        STORE,
    ),
    Mutant(
        "a-token-is-not-above-the-nodes",
        "reconciler/store/sqlite.py",
        'max(self._counter("token", 0), above) + 1',
        'self._counter("token", 0) + 1',
        "after the loss of the store the controller is fenced out of its own nodes",
        STORE,
    ),
    Mutant(
        "what-came-back-is-removed",
        "reconciler/store/objects.py",
        '"DELETE FROM objects WHERE kind = ? AND name = ? AND deleted_at IS NOT NULL", key',
        '"DELETE FROM objects WHERE kind = ? AND name = ?", key',
        "an object that a new commit brings back in the last moment is pruned",
        STORE,
    ),
    Mutant(
        "a-restored-store-goes-back",
        "reconciler/store/sqlite.py",
        "DO UPDATE SET last = max(last, excluded.last)",
        "DO UPDATE SET last = excluded.last",
        "after a restore epochs are given again that ranks have already",
        ("tests/store", "tests/cli/test_backup.py"),
    ),
    Mutant(
        "attempts-are-never-dropped",
        "reconciler/store/attempts.py",
        '" ORDER BY epoch DESC LIMIT 1 OFFSET ?)",',
        '" ORDER BY epoch DESC LIMIT 1 OFFSET 1000 * ?)",',
        "the store of a group that dies for weeks grows without end",
        STORE,
    ),
)

KEPT_BY_AGENTS = (
    Mutant(
        "an-older-token-is-admitted",
        "reconciler/agent/server.py",
        "return token == self.token",
        "return True",
        "a controller that was replaced stops the ranks that its successor has started",
        FENCING,
    ),
    Mutant(
        "the-token-is-not-kept",
        "reconciler/agent/server.py",
        "            self._host.keep_token(token)\n",
        "",
        "after the restart of an agent a controller that was replaced is let in again",
        FENCING,
    ),
    Mutant(
        "a-rank-is-started-twice",
        "reconciler/agent/ranks.py",
        "        if spec.id in self._ranks:\n            return False\n",
        "        self._ranks.pop(spec.id, None)\n",
        "a request that is repeated after a lost answer starts a second process of the same rank",
        LIFE,
    ),
    Mutant(
        "another-process-is-killed",
        "reconciler/agent/ranks.py",
        "elif self._host.birth(process[0]) == process[1]:",
        "elif self._host.birth(process[0]):",
        "a process that was given the number of a dead rank is killed",
        DEATHS,
    ),
    Mutant(
        "a-rank-is-dead-when-its-shim-is",
        "reconciler/agent/ranks.py",
        "            self._host.signal_group(process[0], signal.SIGKILL)\n",
        "",
        "the shim died, and its rank goes on: holding the memory, and writing to clients",
        DEATHS,
    ),
    Mutant(
        "a-living-rank-is-forgotten",
        "reconciler/agent/server.py",
        "if rank is not None and rank.state.exit is None:",
        "if False:",
        "a rank loses its directory while it runs: no controller ever hears of it again",
        LIFE,
    ),
    Mutant(
        "an-answer-is-older-than-the-change",
        "reconciler/agent/server.py",
        '            return Refused("Invalid", str(error))\n        return Done(self._sequence)',
        '            return Refused("Invalid", str(error))\n        return Done(self._sequence - 1)',
        "what was seen before a rank was started passes for news of after it: the rank is missed and started again",
        EXECUTION,
    ),
    Mutant(
        "children-outlive-their-rank",
        "reconciler/agent/shim.py",
        "        assert self._child is not None\n        signal_group(pid, signal.SIGKILL)\n",
        "        assert self._child is not None\n",
        "what a rank has started keeps its memory and its port after its end",
        LIFE,
    ),
    Mutant(
        "asking-again-gives-more-time",
        "reconciler/agent/shim.py",
        "        elif due >= self._kill.when():\n            return\n",
        "",
        "a rank that hangs is asked to end in every pass and so never killed",
        LIFE,
    ),
    Mutant(
        "an-exit-is-not-on-disk",
        "reconciler/agent/shim.py",
        "            self._directory.write_state(state)\n        except",
        "            pass\n        except",
        "how a rank ended while no agent was there is never known",
        DEATHS,
    ),
    Mutant(
        "sleep-is-silence",
        "reconciler/agent/vitals.py",
        "seconds = min(seconds, TICK_SECONDS_MAX)",
        "seconds = max(seconds, 0.0)",
        "a machine that was asleep wakes up with all its ranks given up for hanging",
        HANGS,
    ),
    Mutant(
        "idle-is-hanging",
        "reconciler/agent/vitals.py",
        "owed = progress.demand > 0 or phase in _COMING_UP or any(stopped)",
        "owed = True",
        "a group that nobody asks anything is killed every minute",
        HANGS,
    ),
)

SEEN = (
    Mutant(
        "connections-have-one-number",
        "reconciler/inventory/collector.py",
        "number = next(self._numbers)",
        "number = 1",
        "the reports of a restarted agent begin with a low number and are taken for old ones for ever",
        INVENTORY,
    ),
    Mutant(
        "a-push-is-lost",
        "reconciler/inventory/collector.py",
        "                watch.look.clear()\n"
        "                report = await link.request(Observe(self._models), timeout=OBSERVE_SECONDS_MAX)\n",
        "                report = await link.request(Observe(self._models), timeout=OBSERVE_SECONDS_MAX)\n"
        "                watch.look.clear()\n",
        "what changes while a report is on its way is seen a quarter of a minute later",
        INVENTORY,
    ),
    Mutant(
        "a-lost-node-counts-as-reached",
        "reconciler/inventory/collector.py",
        "watch.seen = replace(before, contact=Contact.AGENT_DOWN, since=since, problem=problem)",
        "watch.seen = replace(before, since=since, problem=problem)",
        "clients are sent to a node that nobody can reach",
        INVENTORY,
    ),
)

CONTROLLED = (
    Mutant(
        "a-deposed-controller-comes-back",
        "reconciler/controller/reconcile.py",
        "        parts.greeted.add(name)\n",
        "",
        "two controllers outbid each other for ever, each undoing what the other does",
        CONTROLLER,
    ),
    Mutant(
        "routes-are-cleared-at-the-start",
        "reconciler/controller/reconcile.py",
        "    parts.looked = parts.looked or (_known(parts) and tried)\n",
        "    parts.looked = parts.looked or _known(parts)\n",
        "every restart of the controller takes all groups out of the gateway for a moment",
        CONTROLLER,
    ),
    Mutant(
        "what-left-is-no-longer-watched",
        "reconciler/controller/reconcile.py",
        "frozenset(desired.nodes.keys() | members | memory.agents)",
        "frozenset(desired.nodes.keys())",
        "ranks and the agent of a node that was removed are never ended",
        CONTROLLER,
    ),
    Mutant(
        "nobody-looks-after-the-home",
        "reconciler/controller/loop.py",
        "            if each.lost:\n",
        "            if False:\n",
        "a controller whose home was taken away goes on beside the next one",
        CONTROLLER,
    ),
)

PUBLISHED = (
    Mutant(
        "what-is-not-proven-is-routed",
        "reconciler/status.py",
        "return members[0] if ready and record.proven_at is not None else None",
        "return members[0] if ready else None",
        "clients are sent to a group that has never given an answer",
        ROUTES,
    ),
    Mutant(
        "a-part-of-a-group-is-routed",
        "reconciler/status.py",
        "ready = all(r is not None and r.report.phase == Phase.READY for r in members)",
        "ready = any(r is not None and r.report.phase == Phase.READY for r in members)",
        "clients are sent to a group of which a rank has died",
        ROUTES,
    ),
    Mutant(
        "ranks-elsewhere-are-the-group-s",
        "reconciler/state/observed.py",
        "if places.get(rank.report.id) == rank.node",
        "if rank.report.id in places",
        "a rank of the same number on another node, from before a restore, passes for one of the group",
        (*PLANNING, *ROUTES),
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    PLANNED + HEALED + EXECUTED + STORED + KEPT_BY_AGENTS + SEEN + CONTROLLED + PUBLISHED
)
