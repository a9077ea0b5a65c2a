"""The life of a rank, phase by phase."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

from reconciler.wire.group import Join, Leave
from reconciler.wire.launch import PIECE_TOKENS_MAX, ExitCode, Phase, RankConfig, RankEnd
from reconciler.wire.log_lines import log_to

from .embedding.layout import ALONE, end_token, hidden_size, pooling_of
from .group import control_channel, neighbours
from .model.files import ModelFiles, check_division, inspect, invalid_weights
from .process.config import read_config
from .process.progress import ProgressPipe
from .process.watch import HURRIED_SECONDS, Watch

if TYPE_CHECKING:
    from reconciler.wire.question import Pooling

    from .decode.batch import Batch, Pulse
    from .group.control_channel import Peers
    from .group.reference import Reference
    from .group.sealed import Sealed
    from .model.adapter import Loaded
    from .model.caches import Footprint

EXIT_SECONDS = 20.0
"""Bound on the interpreter's orderly exit, in which MLX frees what it holds of the network."""
EXIT_SECONDS_AT_MOST = 2 * EXIT_SECONDS
"""Bound on its very last part, in which threads of Python do not run any more."""
FREED_BY_THE_SYSTEM = ("ring",)
"""Backends that hold nothing but sockets and memory. Others must give back what they hold of the network."""
FAST_SYNCH = "MLX_METAL_FAST_SYNCH"
WARM_TOKENS = 4
WARM_TEXT = "Hello"
LOADED_EVERY_SECONDS = 0.5

log = logging.getLogger("reconciler.runner")


@dataclass(frozen=True)
class _Own:
    """The values that all phases of this rank share."""

    config: RankConfig
    progress: ProgressPipe
    watch: Watch
    orders: SimpleQueue[dict[str, Any]] = field(default_factory=SimpleQueue)
    """The orders of rank 0; empty on rank 0 itself."""


def live(config_path: str, progress_descriptor: int | None) -> int:
    """Run the rank from its configuration to its exit status, which is returned. The reason is the last
    ``Progress.detail``."""
    log_to(sys.stderr)
    progress = ProgressPipe(progress_descriptor)
    watch = Watch(progress)
    ending = RankEnd(ExitCode.UNEXPECTED, "")
    config: RankConfig | None = None
    try:
        try:
            progress.enter(Phase.STARTING)
            watch.shim(sys.stdin.fileno())
            watch.start()
            config = read_config(config_path)
            if config.backend in FREED_BY_THE_SYSTEM:
                watch.orderly_seconds = HURRIED_SECONDS
            _set_fast_synch(config)
            ending = _serve(_Own(config, progress, watch))
        except RankEnd as end:
            ending = watch.ending or end
        except MemoryError:
            ending = RankEnd(ExitCode.MEMORY, f"this node has too little memory, while {progress.phase}")
        except BaseException as error:
            if watch.ending is None:
                progress.report_detail(f"{type(error).__name__}: {error}")
                watch.disarm()
                raise
            ending = watch.ending  # raised within code that has made an error of its own of it
        watch.disarm()
    except RankEnd as end:  # by the watch, while it was on its way out for something else
        ending = end
        watch.disarm()
    finally:
        bounded = _bound_exit(ending.code)
    progress.report_detail(ending.sentence)
    log.info("rank ends: %s", ending.sentence)
    if not bounded or (config is not None and config.backend in FREED_BY_THE_SYSTEM):
        _exit_at_once(ending.code)
    return ending.code


def _set_fast_synch(config: RankConfig) -> None:
    """Set the variable as on all ranks of the group, because unequal ones hang: before Metal is first used, when MLX
    reads it."""
    if config.fast_synch:
        os.environ[FAST_SYNCH] = "1"
    else:
        os.environ.pop(FAST_SYNCH, None)


def _exit_at_once(code: int) -> NoReturn:
    """Exit without the interpreter's clean-up, which takes up to a second that the next group waits for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _bound_exit(code: int) -> bool:
    """End the process in a while, however long its exit takes. Return False where there is no memory for a thread."""

    def end() -> None:
        faulthandler.dump_traceback()
        os._exit(code)

    timer = threading.Timer(EXIT_SECONDS, end)
    timer.daemon = True
    try:
        timer.start()
        faulthandler.dump_traceback_later(EXIT_SECONDS_AT_MOST, exit=True)
    except RuntimeError:
        return False
    return True


def _serve(own: _Own) -> RankEnd:
    config = own.config
    files = inspect(config.model_path)
    pooling = pooling_of(files.directory, files.config, config.pooling)
    if config.size > 1 and pooling is not None:
        raise invalid_weights(f"{ALONE}, and this group has {config.size}")
    if config.size > 1 and config.strategy == "tensor":
        check_division(files, config.size)
    # Takes a second or more, so it comes after the checks that need none of it.
    from .model.loading import load_shard

    own.progress.enter(Phase.RENDEZVOUS)
    peers, group, reference = _form(own, files)
    with _loading(own, files), _names_expected(pooling is not None):
        loaded = load_shard(files, group, config.strategy, config.trust_remote_code, config.rope_scaling)
    own.progress.enter(Phase.WARM)
    if pooling is not None:
        return _embed(own, files, pooling, loaded)
    from .decode.batch import known_endings
    from .model.caches import footprint

    with known_endings():
        sizes = footprint(loaded.model, group)
        if config.prove:
            _prove(own, files, loaded, group, reference)
    if config.id.rank == 0:
        return _lead(own, loaded, group, peers, sizes)
    return _follow(own, loaded, group)


def _form(own: _Own, files: ModelFiles) -> tuple[Mapping[int, Sealed], Any, Reference | None]:
    """Form the control channel and then MLX's group; neither for a single rank. Then form a second group, by which the first
    is to be proven."""
    config = own.config
    if config.size == 1:
        return {}, None, None
    from .model.adapter import versions

    mlx, mlx_lm = versions()
    mine = Join(config.id.rank, config.id.epoch, mlx, mlx_lm, files.digest)
    join = control_channel.lead if config.id.rank == 0 else control_channel.follow
    if config.backend == "ring":
        return *_form_ring(own, mine, join), None
    from .group.jaccl import init_jaccl, require_jaccl
    from .group.side_channel import SideChannel

    with neighbours.listening(config) if config.prove else contextlib.nullcontext() as listener:
        peers = join(config, replace(mine, ring=listener.getsockname()[1] if listener else 0))
        side = SideChannel(config, peers.connections)
        for rank, connection in peers.connections.items():
            own.watch.peer(rank, connection, side.handler(rank, own.orders.put))
        require_jaccl()
        own.progress.enter(Phase.VERBS)
        group = init_jaccl(config, side, sys.stdin.fileno())
        reference = None
        if listener is not None:
            from .group.reference import form

            reference = form(config, listener, peers.ring, group, sys.stdin.fileno())
    return peers.connections, group, reference


def _prove(own: _Own, files: ModelFiles, loaded: Loaded, group: Any, reference: Reference | None) -> None:
    """Compare results over RDMA with known ones, and what the model says with what it says over TCP, as all ranks do.
    Raises ``RankEnd(WRONG_RESULT)``."""
    from .proof import prove

    own.progress.reading(PIECE_TOKENS_MAX)
    proof = prove(own.config, files, loaded, group, reference, own.progress.step)
    own.progress.reading(0)
    log.info("%s", proof.text)
    own.progress.proven(proof)


def _form_ring(
    own: _Own, mine: Join, join: Callable[[RankConfig, Join], Peers]
) -> tuple[Mapping[int, Sealed], Any]:
    from .group.ring import init_ring

    with neighbours.listening(own.config) as listener:
        peers = join(own.config, replace(mine, ring=listener.getsockname()[1]))
        for rank, connection in peers.connections.items():
            own.watch.peer(rank, connection, own.orders.put)
        left, right = neighbours.meet(own.config, listener, peers.ring)
    return peers.connections, init_ring(own.config, left, right, sys.stdin.fileno())


@contextlib.contextmanager
def _loading(own: _Own, files: ModelFiles) -> Iterator[None]:
    """Report how much of this rank's share is in memory while it is being loaded."""
    from .model.adapter import loaded_bytes

    share, progress = files.bytes // own.config.size, own.progress
    done = threading.Event()

    def report() -> None:
        while not done.wait(LOADED_EVERY_SECONDS):
            progress.loaded(min(share, loaded_bytes()), share)

    progress.enter(Phase.LOADING)
    progress.loaded(0, share)
    threading.Thread(target=report, name="loading", daemon=True).start()
    try:
        yield
    finally:
        done.set()
    progress.loaded(share, share)


def _names_expected(embeds: bool) -> contextlib.AbstractContextManager[None]:
    """Load the weights of a model for embeddings, whatever its tensors are called."""
    if not embeds:
        return contextlib.nullcontext()
    from .embedding.weights import expected

    return expected()


def _lead(
    own: _Own, loaded: Loaded, group: Any, peers: Mapping[int, Sealed], footprint: Footprint
) -> RankEnd:
    from .decode.inbox import Inbox
    from .decode.lanes import Lanes
    from .decode.leader import Leader
    from .decode.prefixes import Prefixes
    from .decode.reuse import Reuse
    from .forms.matching import Forms
    from .model.adapter import loaded_bytes
    from .model.caches import NOT
    from .requests.server import Server

    config = own.config
    inbox = Inbox(4 * config.batch_max + 256, own.progress)
    batch = _batch(own, loaded, group)
    if config.prefix_cache_bytes and footprint.reuse == NOT:
        log.warning("every prompt is read anew: %s", footprint.why or "for what another rank keeps")
    reuse = Reuse(Prefixes(footprint, config.prefix_cache_bytes), loaded.tokenizer.end_ids)
    known = config.kv_cache_bytes if len(footprint.ranks) == config.size and all(footprint.ranks) else ()
    lanes = Lanes(footprint, known, loaded_bytes())
    leader = Leader(
        batch, config.batch_max, inbox, lambda step: control_channel.broadcast(peers, step), reuse, lanes
    )
    with ThreadPoolExecutor(max_workers=1) as beside:
        forms = beside.submit(Forms, loaded)
        leader.warm(loaded.tokenizer.plain(WARM_TEXT) or [0], WARM_TOKENS)
    server = Server(config.socket, config.context, loaded, inbox, forms.result())
    server.start()
    own.progress.enter(Phase.READY)
    own.watch.ready(inbox.drain)
    leader.serve(server.post, _pulse(config, group))
    server.stop()
    _settle(batch, own.watch)
    control_channel.broadcast(peers, Leave("rank 0 was asked to stop"))
    return RankEnd(ExitCode.OK, "stopped as asked, with nothing left to do")


def _embed(own: _Own, files: ModelFiles, pooling: Pooling, loaded: Loaded) -> RankEnd:
    from .decode.inbox import Inbox
    from .embedding.embedder import Embedder
    from .embedding.loop import EmbeddingLoop
    from .forms.matching import Forms
    from .requests.server import Server
    from .requests.texts import TextReader

    config = own.config
    inbox = Inbox(4 * config.batch_max + 256, own.progress)
    embedder = Embedder(loaded.model, pooling, hidden_size(files.config))
    end = end_token(files, pooling)
    texts = TextReader(loaded.tokenizer, loaded.vocabulary, config.context, embedder.size, end)
    server = Server(config.socket, config.context, loaded, inbox, Forms(loaded), texts)
    server.start()
    own.progress.enter(Phase.READY)
    own.watch.ready(inbox.drain)
    EmbeddingLoop(embedder, inbox, own.progress).serve(server.post)
    server.stop()
    own.watch.disarm()
    return RankEnd(ExitCode.OK, "stopped as asked, with nothing left to do")


def _follow(own: _Own, loaded: Loaded, group: Any) -> RankEnd:
    from .decode.follower import follow_steps

    batch = _batch(own, loaded, group)

    def ready() -> None:
        own.watch.ready(lambda: None)  # rank 0 decides when the group has nothing left to do
        own.progress.enter(Phase.READY)

    reason = follow_steps(own.orders, batch, own.progress, ready, _pulse(own.config, group))
    _settle(batch, own.watch)
    return RankEnd(ExitCode.OK, f"left the group: {reason}")


def _settle(batch: Batch, watch: Watch) -> None:
    """Do what this rank still owes the others, watched, because a collective may never end; from then on its end is
    intended."""
    batch.settle()
    watch.disarm()


def _pulse(config: RankConfig, group: Any) -> Pulse | None:
    from .decode.batch import Pulse

    return (
        Pulse(group, config.keep_alive_seconds) if group is not None and config.keep_alive_seconds else None
    )


def _batch(own: _Own, loaded: Loaded, group: Any) -> Any:
    from .decode.batch import Batch
    from .decode.measure import Gauge
    from .decode.sampling import Agreement
    from .model.generator import Generator

    agreement = Agreement(group, loaded.vocabulary)
    generator = Generator(loaded, agreement.on, keeps=own.config.prefix_cache_bytes > 0)
    return Batch(generator, own.progress, Gauge(group))
