"""What is done about bad manifests, weights that cannot be served, and a machine that denies something.

Each entry takes one piece of that away again. Those about requests are in ``requests``.
"""

from __future__ import annotations

from ast import (
    Assign,
    Await,
    BoolOp,
    Call,
    Compare,
    Constant,
    Continue,
    Dict,
    Expr,
    For,
    If,
    IfExp,
    Return,
    Tuple,
    While,
    keyword,
)

from reconciler.agent.ranks import ranks, shim
from reconciler.bootstrap import home, origin, store
from reconciler.cli.commands.cluster import up
from reconciler.cli.core import app
from reconciler.controller import desired_state, loop, publish, routes_file
from reconciler.gateway import server, state_file
from reconciler.planning import safety
from reconciler.planning.context import sharding
from reconciler.planning.nodes import eligible, gateways
from reconciler.planning.placement import search, suggestions
from reconciler.planning.plan import _written_first
from reconciler.planning.replica import form
from reconciler.runner.group import control_channel
from reconciler.runner.model import files as runner_weights
from reconciler.services import hearing, lock, supervise
from reconciler.serving import addresses as listening
from reconciler.source import files, hook
from reconciler.source.git import layout, leftovers, pushes, repository
from reconciler.source.operating import writing
from reconciler.source.yaml import documents, fields, parser, pieces, syntax_errors
from reconciler.status import conditions
from reconciler.store import connection, schema, sqlite
from reconciler.wire import shards
from tests.mutants.mutant import Mutant
from tests.mutants.operators import always, catch_nothing, drop, follow, keep, never, precede, put, respell

SYNTAX = ("tests/source/yaml/test_syntax_messages.py",)
FIELD_MESSAGES = ("tests/source/yaml/test_field_messages.py",)
DOCUMENTS = ("tests/source/yaml/test_documents.py",)
FIELDS = ("tests/source/yaml/test_fields.py",)
SOURCES = ("tests/source/test_sources.py",)
GIT = ("tests/source/git/test_git.py",)
REPOSITORY_CARE = ("tests/controller/test_repository_care.py",)
GIT_LOCKS = ("tests/source/git/test_leftovers.py",)
GIT_FAULTS = ("tests/source/git/test_git_faults.py",)
HOOKS = ("tests/source/git/test_hooks.py",)
DESIRED_STATE = ("tests/controller/test_desired_state.py",)
SAFETY = ("tests/planning/test_safety.py",)
SHARDING = ("tests/planning/context/test_sharding.py",)
PLACEMENT = ("tests/planning/placement/test_place.py",)
AGENT_WEIGHTS = ("tests/agent/weights/test_weights.py",)
EXAMINATION = ("tests/runner/test_examination.py",)
RANK_WEIGHTS = ("tests/runner/model/test_weights.py",)
GATEWAY_PROCESS = ("tests/gateway/test_process.py",)
STORE_DISK = ("tests/store/test_full_disk.py",)
STORE_DAMAGE = ("tests/store/test_damage.py",)
SUPERVISION = ("tests/services/test_supervise.py",)
HEARING = ("tests/services/test_hearing.py",)
CONTROLLER_DISK = ("tests/controller/test_full_disk.py",)
AGENT_DISK = ("tests/agent/system/test_full_disk.py",)
HOME = ("tests/cli/commands/cluster/test_home.py",)

MANIFESTS = (
    Mutant(
        "invalid-yaml-is-a-crash",
        parser.parse,
        catch_nothing(0, 2),
        "a bracket too many ends the command, the hook or the controller's round with a traceback",
        SYNTAX,
    ),
    Mutant(
        "a-syntax-error-has-no-words",
        syntax_errors.syntax_problem,
        never(If, 1, 3),
        "people are told what libyaml says to itself",
        SYNTAX,
    ),
    Mutant(
        "unknown-kinds-are-read",
        documents._check_kind,
        always(If, 3, 6),
        "a mistyped kind is a traceback",
        FIELD_MESSAGES,
    ),
    Mutant(
        "unknown-fields-are-ignored",
        "reconciler.resources.base:Strict.model_config",
        put(keyword, "'ignore'", 2, 5),
        "a mistyped field does nothing, in silence",
        FIELD_MESSAGES,
    ),
    Mutant(
        "of-two-names-the-last-counts",
        documents._across,
        never(If, 0, 3),
        "one of two objects of a name is not there, in silence",
        DOCUMENTS,
    ),
    Mutant(
        "two-gateways-are-taken",
        documents._across,
        never(If, 2, 3),
        "which address is listened on depends on the order of files",
        DOCUMENTS,
    ),
    Mutant(
        "an-alias-has-two-owners",
        documents._names_for_clients,
        never(),
        "which deployment answers depends on the order of files",
        DOCUMENTS,
    ),
    Mutant(
        "of-two-keys-the-first-counts",
        parser._Builder._take_key,
        put(Compare, "{it.left} is None", 3, 4),
        "a key that occurs twice has the value that its reader does not look at",
        SYNTAX,
    ),
    Mutant(
        "aliases-are-taken",
        parser._Builder._alias,
        drop(Expr, 0, 2),
        "an alias is read as nothing, or a text of a kilobyte grows to gigabytes",
        SYNTAX,
    ),
    Mutant(
        "anchors-are-taken",
        parser._Builder._check_properties,
        never(If, 0, 2),
        "a document means something else when its neighbour is edited",
        SYNTAX,
    ),
    Mutant(
        "tags-are-taken",
        parser._Builder._check_properties,
        never(If, 1, 2),
        "a tag that asks for a Python object is passed over in silence",
        SYNTAX,
    ),
    Mutant(
        "nesting-has-no-end",
        parser._Builder._opens,
        never(If, 1, 2),
        "a mebibyte of brackets ends the process by its stack",
        SYNTAX,
    ),
    Mutant(
        "a-number-may-be-endless",
        parser._Builder._number,
        drop(Compare, 1, 5),
        "a number of five thousand digits is a traceback",
        SYNTAX,
    ),
    Mutant(
        "problems-have-no-end",
        parser._Builder.report,
        never(),
        "the wrong file on the command line scrolls for minutes",
        SYNTAX,
    ),
    Mutant(
        "garbage-is-decoded",
        pieces.decode,
        catch_nothing(),
        "a file that is no text is a traceback",
        SYNTAX,
    ),
    Mutant(
        "garbage-is-text",
        pieces.decode,
        put(Call, "None", 15, 20),
        "binary garbage is parsed, and messages speak to the terminal",
        SYNTAX,
    ),
    Mutant(
        "escapes-reach-the-terminal",
        parser._Builder._scalar,
        put(Call, "None", 4, 10),
        "a quoted escape sequence is a value, and is printed",
        SYNTAX,
    ),
    Mutant(
        "a-file-may-be-endless",
        pieces.decode,
        never(If, 1, 5),
        "gigabytes that were added by mistake are parsed",
        SYNTAX,
    ),
    Mutant(
        "a-large-file-is-read-first",
        files._read,
        never(),
        "gigabytes beside the manifests are read before they are refused",
        SOURCES,
    ),
    Mutant(
        "crlf-hides-documents",
        "reconciler.source.yaml.pieces:_MARKER",
        respell("t\\r", "t"),
        "of a file from Windows only the first document is read",
        SYNTAX,
    ),
    Mutant(
        "a-change-breaks-crlf",
        fields._insertion,
        put(IfExp, "'\\n'"),
        "a field that is added to a file from Windows ends its line in another way than all others",
        FIELDS,
    ),
    Mutant(
        "a-byte-order-mark-is-a-key",
        pieces.decode,
        drop(Assign, 2, 6),
        "a file that Notepad wrote is refused for something that cannot be seen",
        SYNTAX,
    ),
    Mutant(
        "a-tab-is-any-character",
        syntax_errors._bad_start,
        never(),
        "a tab is shown as such, which looks like spaces",
        SYNTAX,
    ),
    Mutant(
        "documents-have-no-end",
        documents._read_file,
        never(If, 1, 4),
        "a file of dashes keeps the controller busy for minutes",
        SYNTAX,
    ),
    Mutant(
        "documents-of-all-files-have-no-end",
        documents.load,
        never(If, 1, 3),
        "many files together are beyond what a pass is made for",
        SYNTAX,
    ),
    Mutant(
        "a-thousand-documents-are-many",
        "reconciler.source.yaml.pieces:DOCUMENTS_MAX",
        put(Constant, "999"),
        "a cluster of a thousand objects in one file is refused",
        GIT_FAULTS,
    ),
)

IN_FORCE = (
    Mutant(
        "what-is-wrong-replaces-what-runs",
        desired_state.DesiredState._reject,
        put(
            Await,
            "__import__('dataclasses').replace({it}, in_force=type(self._in_force)('none', {{}}, {{}}))",
        ),
        "a commit with a mistake in it stops everything",
        DESIRED_STATE,
    ),
    Mutant(
        "a-restart-forgets-the-last-good",
        desired_state.DesiredState._remembered,
        never(If, 0, 3),
        "a controller that starts while the newest revision is wrong has nothing to heal",
        DESIRED_STATE,
    ),
    Mutant(
        "a-wrong-revision-is-no-event",
        desired_state.DesiredState._publish_kept_out,
        never(If, 2, 3),
        "what was pushed past the hook is not in force, and nothing says so",
        DESIRED_STATE,
    ),
    Mutant(
        "a-wrong-revision-is-no-condition",
        safety.held_revision,
        never(If, 1, 5),
        "plan and conditions look as if the newest revision was in force",
        SAFETY,
    ),
    Mutant(
        "a-damaged-source-ends-the-round",
        desired_state.DesiredState.refresh,
        catch_nothing(1, 2),
        "a damaged repository is a traceback every two seconds",
        DESIRED_STATE,
    ),
    Mutant(
        "the-hook-lets-everything-in",
        hook.pre_receive,
        never(If),
        "who pushes a mistake learns nothing of it",
        HOOKS,
    ),
    Mutant(
        "history-can-be-dropped",
        pushes.examine,
        never(If, 2, 3),
        "a forced push drops what others have committed",
        HOOKS,
    ),
    Mutant(
        "main-can-be-deleted",
        pushes.examine,
        never(If, 1, 3),
        "a deleted branch is a traceback in the hook, or an empty cluster",
        HOOKS,
    ),
    Mutant(
        "of-two-pushes-one-is-a-mistake",
        repository.ClusterRepo._land,
        never(If, 3, 4),
        "who commits at the same time as another is told that the manifests are wrong",
        GIT,
    ),
    Mutant(
        "of-two-applies-one-is-lost",
        writing.write_manifests,
        always(If, 1, 2),
        "of two people who apply at the same time one has to try again by hand",
        ("tests/cli/commands/write/test_manifests.py::test_two_applies_at_once_both_land",),
    ),
    Mutant(
        "a-lost-branch-is-an-empty-one",
        repository.ClusterRepo._at,
        never(If, 1, 2),
        "a disk that loses a file has every operation forgotten: what was stopped starts",
        REPOSITORY_CARE,
    ),
    Mutant(
        "a-lost-branch-stays-lost",
        layout.restore,
        never(If, 3, 5),
        "a branch that a disk has lost stays lost until a person finds a clone",
        REPOSITORY_CARE,
    ),
    Mutant(
        "a-lost-config-has-no-settings",
        repository.ClusterRepo.restore,
        never(If, 0, 1),
        "a config that was lost has all of a monorepo read as manifests",
        REPOSITORY_CARE,
    ),
    Mutant(
        "a-deposed-reader-reads-on",
        loop.Loop._read_source,
        always(While, 0, 1),
        "a controller whose place was taken computes for ever and never ends",
        ("tests/controller/test_loop.py",),
    ),
    Mutant(
        "a-killed-push-keeps-all-out",
        leftovers.drop_leftovers,
        never(If, 0, 2),
        "after a git that was killed nobody can push until somebody finds the lock",
        GIT_LOCKS,
    ),
    Mutant(
        "any-lock-is-taken-for-a-dead-one",
        leftovers.drop_leftovers,
        always(If, 0, 2),
        "a push that is going on loses its lock to a controller that starts",
        GIT_LOCKS,
    ),
    Mutant(
        "a-killed-push-takes-space-for-ever",
        leftovers.drop_leftovers,
        never(If, 1, 2),
        "what was received of pushes that were killed fills the disk",
        GIT_FAULTS,
    ),
    Mutant(
        "the-hook-does-not-see-the-push",
        hook.pre_receive,
        put(Compare, "{it.left} in ()", 0, 2),
        "every push is refused: its objects are in quarantine until the hook has agreed",
        HOOKS,
    ),
)

WEIGHTS = (
    Mutant(
        "a-missing-model-is-a-crash",
        form.form,
        never(If, 0, 7),
        "a deployment of a model that no manifest has ends every pass",
        PLACEMENT,
    ),
    Mutant(
        "missing-weights-are-started",
        eligible.unfit,
        never(If, 7, 9),
        "ranks are started again and again without weights",
        ("tests/planning/replica/test_ladder.py", *PLACEMENT, "tests/controller/test_controller.py"),
    ),
    Mutant(
        "unusable-weights-are-started",
        eligible.unfit,
        never(If, 5, 9),
        "ranks are started again and again with weights that are cut short",
        ("tests/planning/replica/test_ladder.py", *PLACEMENT),
    ),
    Mutant(
        "cut-weights-look-whole",
        shards.check_size,
        never(),
        "a copy that was interrupted is found out by its ranks, after minutes",
        AGENT_WEIGHTS,
    ),
    Mutant(
        "a-missing-shard-is-not-missed",
        shards.layout,
        never(If, 0, 6),
        "mlx-lm leaves the tensors of a missing file random: the model talks nonsense",
        AGENT_WEIGHTS,
    ),
    Mutant(
        "a-rank-loads-cut-weights",
        runner_weights.read_layout,
        drop(For),
        "weights that were cut after the agent's look are read as far as they go",
        RANK_WEIGHTS,
    ),
    Mutant(
        "a-copy-may-lie-beside-its-file",
        shards._check_once,
        never(),
        "of two builds in one folder the file system decides which tensors are served",
        AGENT_WEIGHTS,
    ),
    Mutant(
        "an-unknown-architecture-is-fine",
        "reconciler.runner.examination:examine",
        put(Dict, "{{}}", 3, 9),
        "an architecture that mlx-lm does not have is found out by a crash loop",
        EXAMINATION,
    ),
    Mutant(
        "an-architecture-is-not-named",
        "reconciler.runner.examination:_model_problem",
        never(If, 1, 2),
        "people read mlx-lm's own words instead of the name of the architecture",
        EXAMINATION,
    ),
    Mutant(
        "a-rank-crashes-at-its-weights",
        "reconciler.runner.model.loading:load_shard",
        catch_nothing(),
        "what mlx-lm raises about weights is a traceback and a restart",
        RANK_WEIGHTS,
    ),
    Mutant(
        "code-of-a-model-is-run-unasked",
        eligible.unfit,
        never(If, 8, 9),
        "Python code that came with weights runs without anybody having agreed",
        PLACEMENT,
    ),
    Mutant(
        "code-of-a-model-is-not-noticed",
        "reconciler.runner.examination:examine",
        never(If, 0, 2),
        "an examination runs the code that came with weights, or says that they are broken",
        EXAMINATION,
    ),
    Mutant(
        "code-of-a-tokenizer-is-a-problem",
        "reconciler.runner.examination:examine",
        never(If, 1, 2),
        "nobody is told of trustRemoteCode, which would make the model work",
        EXAMINATION,
    ),
    Mutant(
        "a-rank-trusts-any-code",
        "reconciler.runner.model.loading:load_shard",
        follow(Expr, "{place.args.args[3].arg} = True", 0, 5),
        "a rank runs code that nobody has agreed to",
        RANK_WEIGHTS,
    ),
)

SPLITS = (
    Mutant(
        "heads-need-not-divide",
        sharding._heads,
        never(),
        "mlx-lm shards what does not divide into nonsense, or every rank crashes",
        SHARDING,
    ),
    Mutant(
        "kv-heads-need-not-divide",
        sharding._heads,
        drop(Tuple, 4, 5),
        "mlx-lm shards what does not divide into nonsense, or every rank crashes",
        SHARDING,
    ),
    Mutant(
        "quantization-groups-may-be-cut",
        sharding._groups,
        never(),
        "every rank crashes when it splits its matrices",
        SHARDING,
    ),
    Mutant(
        "any-model-is-a-pipeline",
        "reconciler.runner.model.loading:unsplittable",
        never(If, 1, 4),
        "a pipeline of a model that has none is found out by a crash loop",
        EXAMINATION,
    ),
    Mutant(
        "what-the-runtime-says-is-not-read",
        sharding.obstacle,
        never(If, 0, 2),
        "a strategy that the model does not know is tried all the same",
        SHARDING,
    ),
    Mutant(
        "a-pipeline-has-empty-stages",
        sharding.obstacle,
        put(Call, "''", 4, 8),
        "a rank without a layer ends the group",
        SHARDING,
    ),
    Mutant(
        "a-rank-shards-any-heads",
        runner_weights.check_division,
        never(),
        "a rank that is started in spite of its heads talks nonsense",
        RANK_WEIGHTS,
    ),
    Mutant(
        "memory-has-no-end",
        search.FreeMemory.fits,
        always(Call, 2, 4),
        "ranks that are larger than their machine bring it down",
        PLACEMENT,
    ),
    Mutant(
        "nothing-smaller-is-offered",
        suggestions._largest_fitting,
        put(Call, "range(1, 1)", 1, 3),
        "people have to guess how much context would fit",
        PLACEMENT,
    ),
)

MACHINES = (
    Mutant(
        "a-taken-port-is-a-crash",
        listening.bind,
        put(Continue, "raise"),
        "a gateway beside another server ends with a traceback",
        GATEWAY_PROCESS,
    ),
    Mutant(
        "a-taken-address-ends-the-old-one",
        server._Gateway._follow,
        catch_nothing(),
        "a commit with an address that is taken ends the endpoint that works",
        GATEWAY_PROCESS,
    ),
    Mutant(
        "a-freed-port-is-not-taken",
        server._Gateway.run,
        put(IfExp, "None", 1, 2),
        "an endpoint stays where nobody looks for it after its port got free",
        GATEWAY_PROCESS,
    ),
    Mutant(
        "a-taken-port-is-no-condition",
        gateways.own,
        always(),
        "the Gateway looks ready while it does not listen",
        ("tests/planning", "tests/status"),
    ),
    Mutant(
        "a-rank-s-taken-port-is-no-reason",
        control_channel._listen,
        never(Compare),
        "a port that another program holds looks like a peer that does not come",
        (
            "tests/runner/test_life_and_death.py"
            "::test_a_control_port_is_for_one_rank_and_a_rank_terminated_before_it_is_ready_ends_at_once",
        ),
    ),
    Mutant(
        "a-full-disk-is-damage",
        connection.meaning,
        never(If, 2, 3),
        "people are told to delete their store because its disk is full",
        STORE_DISK,
    ),
    Mutant(
        "a-full-disk-is-for-ever",
        sqlite.Store.recover,
        drop(Assign),
        "after the disk has room again nothing is started until somebody restarts the controller",
        STORE_DISK,
    ),
    Mutant(
        "a-full-disk-loses-events",
        publish.Publisher._save,
        precede(Return, "{place.body[4].value.func}()"),
        "that the disk was full is not to be found in the events",
        CONTROLLER_DISK,
    ),
    Mutant(
        "a-full-disk-ends-the-pass",
        publish.Publisher._route,
        catch_nothing(0, 2),
        "routes that cannot be written keep conditions from being told",
        CONTROLLER_DISK,
    ),
    Mutant(
        "routes-are-half-written",
        routes_file.RoutesFile.replace,
        keep(Call, "func.value", 0, 7),
        "on a full disk the gateway finds a part of the routes",
        CONTROLLER_DISK,
    ),
    Mutant(
        "a-full-disk-is-no-condition",
        safety.unwritable,
        always(),
        "nothing is started, and nothing says why",
        (*SAFETY, *CONTROLLER_DISK),
    ),
    Mutant(
        "a-gateway-ends-on-a-full-disk",
        state_file.replace,
        catch_nothing(),
        "the endpoint goes because its own state cannot be written",
        GATEWAY_PROCESS,
    ),
    Mutant(
        "a-full-disk-stops-a-rank-s-reports",
        shim.Shim._append,
        catch_nothing(),
        "what a rank reports is lost together with what it prints",
        AGENT_DISK,
    ),
    Mutant(
        "a-full-disk-hides-the-end",
        shim.Shim._change,
        catch_nothing(),
        "how a rank ended is told to nobody where it cannot be written down",
        AGENT_DISK,
    ),
    Mutant(
        "an-error-is-a-traceback",
        app.Commands.invoke,
        catch_nothing(),
        "whatever is wrong, the command line shows where in the program it was noticed",
        HOME,
    ),
    Mutant(
        "what-is-refused-is-no-condition",
        conditions._status,
        put(Call, "None", 7, 18),
        "an object that cannot be served says for ever that it is on its way",
        ("tests/status",),
    ),
    Mutant(
        "what-is-unknown-is-over",
        conditions._status,
        never(nth=1, of=2),
        "each start of a controller says that obstacles are gone and cables are out, and takes it back",
        ("tests/status",),
    ),
    Mutant(
        "a-read-only-home-is-a-crash",
        home.Home.check,
        catch_nothing(1, 2),
        "a home on a disk that is mounted read-only is a traceback",
        HOME,
    ),
    Mutant(
        "a-home-is-open-to-anybody",
        home.Home.check,
        never(If, 3, 4),
        "any user of the machine decides what runs",
        HOME,
    ),
    Mutant(
        "a-home-is-anybody-s",
        home.Home.check,
        never(If, 2, 4),
        "what belongs to another user is used until something fails",
        HOME,
    ),
    Mutant(
        "a-damaged-store-is-opened",
        schema.check,
        never(),
        "a damaged store fails in the middle of a pass",
        ("tests/store/test_migrations.py",),
    ),
    Mutant(
        "two-controllers-run",
        lock.held,
        drop(Expr, 1, 6),
        "two controllers start and stop each other's ranks",
        ("tests/controller/test_controller.py::test_a_second_controller_is_refused_by_name",),
    ),
    Mutant(
        "two-ups-run",
        up.only_one,
        drop(Expr, 2, 9),
        "a second `up` starts a controller and a gateway over and over that cannot run",
        ("tests/cli/commands/cluster/test_up.py::test_a_second_up_of_a_home_says_who_has_it",),
    ),
    Mutant(
        "damage-is-not-looked-for",
        connection.Connection.altered,
        put(Return, "return False"),
        "an epoch is written into a file that cannot be read any more",
        STORE_DAMAGE,
    ),
    Mutant(
        "a-newer-store-looks-damaged",
        sqlite.Store.__init__,
        drop(Expr, 2, 12),
        "after a downgrade the newer version's store is moved away",
        STORE_DAMAGE,
    ),
    Mutant(
        "a-damaged-store-stays",
        store.open_store,
        catch_nothing(),
        "no controller starts until a person deletes the files",
        ("tests/bootstrap/test_store.py",),
    ),
    Mutant(
        "each-step-meets-the-lock",
        _written_first,
        always(),
        "one lock is reported as the failure of every step, whose back-offs then grow",
        ("tests/planning/test_safety.py",),
    ),
    Mutant(
        "routes-wait-for-a-lock",
        connection.Connection.fenced,
        catch_nothing(),
        "requests go to a group that has ended for as long as somebody copies the store",
        ("tests/store/test_locked.py", "tests/controller/test_publish.py"),
    ),
    Mutant(
        "a-copied-home-ends-ranks",
        ranks.Ranks._owns,
        put(Return, "return True"),
        "who tries an upgrade on a copy of the home loses the ranks of the original",
        ("tests/agent/ranks/test_copied_directory.py",),
    ),
    Mutant(
        "a-copied-home-is-a-home",
        origin._other,
        always(If, 2, 5),
        "a copied home takes the machines and the address of the original",
        ("tests/bootstrap/test_origin.py",),
    ),
    Mutant(
        "a-moved-home-is-a-copy",
        origin._other,
        put(BoolOp, "{it.values[0]}", 0, 1),
        "a home that another path leads to, or that was moved, does not start any more",
        ("tests/bootstrap/test_origin.py",),
    ),
    Mutant(
        "a-deaf-service-is-kept",
        hearing.Hearing._heard,
        never(If, 2, 3),
        "a gateway that hangs is kept for ever, because its process lives",
        HEARING,
    ),
    Mutant(
        "a-service-that-never-listens-stays",
        hearing.Hearing._heard,
        never(If, 1, 3),
        "a console that hangs before it listens is kept for ever, because its process lives",
        HEARING,
    ),
    Mutant(
        "a-busy-service-is-ended",
        hearing.Hearing._heard,
        put(BoolOp, "False"),
        "a gateway on a machine under load is ended, with the answers that it streams",
        HEARING,
    ),
    Mutant(
        "an-answer-forgets-nothing",
        hearing.Hearing._heard,
        drop(Assign, 1, 3),
        "questions that were lost over days end a service that answers",
        HEARING,
    ),
    Mutant(
        "a-stopped-service-is-not-continued",
        supervise.Supervisor._hear,
        drop(Expr, 4, 5),
        "a gateway that was merely stopped is replaced, and all streams end",
        HEARING,
    ),
    Mutant(
        "a-service-is-started-twice",
        supervise.Supervisor._begin,
        always(If, 0, 4),
        "after the death of `up`, the next one tries over and over to start what runs already",
        SUPERVISION,
    ),
    Mutant(
        "any-service-is-taken-over",
        supervise.Supervisor._begin,
        always(If, 3, 4),
        "after an upgrade the old version's controller goes on",
        SUPERVISION,
    ),
)

HANDLED = (*MANIFESTS, *IN_FORCE, *WEIGHTS, *SPLITS, *MACHINES)
