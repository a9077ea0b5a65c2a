"""The commands of ``reconciler sandbox``: the arguments, the act and the undo of each. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.errors import Invalid

from .acts import cables, machines, ports, ranks
from .acts.act import Act, Moment, Result, flag
from .world.state import NoSuchThing, World


@dataclass(frozen=True, slots=True)
class Command:
    """One fault."""

    usage: str
    """Its arguments, such as ``NODE/RECEPTACLE``; optional ones in brackets."""
    summary: str
    """A sentence."""
    examples: tuple[str, ...]
    act: Act
    back: str = ""
    """The command that undoes it; empty if ``--undo`` does."""


_NODE, _END, _PLACE = "NODE", "NODE/RECEPTACLE", "NODE[/RECEPTACLE]"

COMMANDS: Mapping[str, Command] = {
    "unplug": Command(_END, "Unplug a Thunderbolt cable.", ("studio-1/3",), cables.unplug, "plug"),
    "pull": Command(
        f"{_END} [SECONDS]", "Unplug a cable while it is used: the machine at its other end panics.",
        ("studio-1/3", "studio-1/3 20"), cables.pull,
    ),
    "plug": Command(
        f"{_END} [{_END}]", "Plug in an unplugged cable, or a new one between two receptacles.",
        ("studio-1/3", "studio-1/6 studio-2/6"), cables.plug, "unplug",
    ),
    "swap-cables": Command(
        f"{_END} {_END}", "Swap one end of two cables; a second swap restores them.",
        ("studio-1/3 studio-1/4",), cables.swap, "swap-cables",
    ),
    "slow-cable": Command(_END, "Replace a cable by a Thunderbolt 4 cable.", ("studio-1/3",), cables.slow),
    "slow-rdma": Command(
        _END, "Replace a cable by a Thunderbolt 4 cable over which RDMA works.", ("studio-1/3",), cables.slow_rdma
    ),
    "dock": Command(_END, "Put a dock between the two ends of a cable.", ("studio-1/3",), cables.dock),
    "hub": Command(
        _END, "Put a Thunderbolt 5 hub between, which this end alone reports.", ("studio-1/3",), cables.hub
    ),
    "rdma": Command("on|off NODE", "Enable or disable RDMA as in Recovery, with a restart.", ("off studio-2", "on studio-2"), machines.rdma),
    "bridge": Command(_PLACE, "Add ports to bridge0.", ("studio-1/3", "studio-1"), ports.bridge),
    "retake": Command(
        f"{_PLACE} [SECONDS]", "Add ports to bridge0, and again some time after each has left.",
        ("studio-1/3", "studio-1/3 20"), ports.retake,
    ),
    "adapter": Command(
        _NODE, "Make a USB adapter with an Ethernet cable a member of bridge0.", ("studio-1",), ports.adapter
    ),
    "lose-ipv4": Command(_PLACE, "Remove the IPv4 addresses of ports.", ("studio-1/3", "studio-1"), ports.lose_ipv4),
    "change-address": Command(
        _PLACE, "Give ports another automatic IPv4 address (169.254/16).", ("studio-1/3", "studio-1"), ports.readdress
    ),
    "keep-address": Command(
        f"{_PLACE} [SECONDS]",
        "Give ports an automatic IPv4 address (169.254/16), and again some time after each change.",
        ("studio-1/3", "studio-1 20"), ports.keep_address,
    ),
    "second-address": Command(
        f"{_PLACE} [first]", "Give ports an automatic IPv4 address (169.254/16) beside their own, after or before it.",
        ("studio-1/3", "studio-1 first"), ports.second_address,
    ),
    "share-internet": Command(
        f"{_END} [SECONDS]",
        "Share the internet of a machine over a cable: the other end has a lease and a default route, again some time"
        " after each change.",
        ("studio-1/3", "studio-1/3 20"), ports.share_internet,
    ),
    "no-service": Command(
        _PLACE, "Leave ports without a network service.", ("studio-1/3", "studio-1"), ports.no_service
    ),
    "port-name": Command(
        f"{_PLACE} [NAME]", "Give ports names of another language, or this name, which another port may have too.",
        ("studio-1", "studio-1/3 Thunderbolt 4"), ports.port_name,
    ),
    "gid-index": Command(
        f"{_PLACE} [INDEX]", "Publish the IPv4-mapped GIDs of ports at another index.", ("studio-1/3", "studio-1 4"), ports.gid_index
    ),
    "late-gid": Command(
        f"{_NODE} [SECONDS]", "Publish the IPv4-mapped GIDs of a machine only after some time.", ("studio-1", "studio-1 60"), ports.late_gid
    ),
    "reboot": Command(
        f"{_NODE} [SECONDS]", "Restart a machine: everything there ends, and it is away for a while.",
        ("studio-3", "studio-3 60"), machines.reboot,
    ),
    "slow-shutdown": Command(
        f"{_NODE} [SECONDS]", "Restart a machine whose shutdown takes minutes.", ("studio-3", "studio-3 60"), machines.slow_shutdown
    ),
    "lock": Command(
        _NODE, "Restart a machine with FileVault: it waits for the password of its disk.", ("studio-3",), machines.lock
    ),
    "panic": Command(f"{_NODE} [SECONDS]", "Simulate a kernel panic: a restart, and a panic report.", ("studio-3", "studio-3 20"), machines.panic),
    "hang": Command(
        _NODE, "Make the ranks of a machine hang without ending.", ("studio-2",),
        flag("hung", "its ranks hang", "its ranks continue"),
    ),
    "kill": Command(_NODE, "Kill the ranks of a machine.", ("studio-2",), ranks.kill, "nothing: ranks are restarted"),
    "unkillable": Command(
        f"{_NODE} [SECONDS]",
        "Hold the ranks of a machine at their exit, as a deadlock in its kernel: nothing ends them but a restart,"
        " whose shutdown takes so long.",
        ("studio-2", "studio-2 20"), ranks.unkillable,
    ),
    "leaky": Command(
        f"{_NODE} [DOMAINS] [GIB]",
        "Kill the ranks of a machine; until it restarts, each killed rank leaves protection domains and wired memory behind.",
        ("studio-2", "studio-2 11 64"), ranks.leaky,
    ),
    "fragile": Command(
        f"{_NODE} [PERCENT] [SECONDS]",
        "Make the kernel of a machine panic, so often, when a rank that uses RDMA is killed, or a cable that ranks use is"
        " unplugged.",
        ("studio-2", "studio-2 30 60"), ranks.fragile,
    ),
    "hold-port": Command(
        f"{_NODE} [TIMES]", "Make the next ranks of a machine find their port in use.", ("studio-1", "studio-1 3"), ranks.hold_port
    ),
    "gpu-fault": Command(
        f"{_NODE} [timeout|oom]", "Make the GPU of a machine fail.", ("studio-2", "studio-2 oom"), ranks.gpu
    ),
    "privacy": Command(
        f"{_NODE}|{machines.CONTROLLER}", "Block connections by local network privacy (errno 65): of ranks, or of the controller.",
        ("studio-2", machines.CONTROLLER), machines.privacy,
    ),
    "firewall": Command(
        _NODE, "Turn on the application firewall, which lets nobody connect to ranks.", ("studio-1",), machines.firewall
    ),
    "no-jaccl": Command(_NODE, "Replace MLX by a build without JACCL.", ("studio-2",), machines.jaccl),
    "leak-wired": Command(f"{_NODE} [GIB]", "Leak wired memory.", ("studio-2", "studio-2 200"), machines.leak),
    "exhaust-pd": Command(
        f"{_NODE} [COUNT]", "Use up protection domains of the RDMA driver.", ("studio-2",), machines.exhaust
    ),
    "wedge-verbs": Command(
        _NODE, "Make the RDMA tools of a machine hang.", ("studio-2",),
        flag("verbs_wedged", "its RDMA tools hang", "its RDMA tools answer"),
    ),
    "refuse-qp": Command(
        _NODE, "Make queue pairs with a machine fail to connect (errno 60), without any other sign.", ("studio-2",),
        flag("pairs_refused", "its queue pairs do not connect", "its queue pairs connect"),
    ),
    "busy-qp": Command(
        _NODE, "Make queue pairs of a machine fail (errno 16) until it restarts.", ("studio-2",),
        flag("pairs_busy", "its queue pairs are busy until it restarts", "its queue pairs connect"),
    ),
    "decay": Command(
        f"{_NODE} [MINUTES]", "Let time pass without a request, after which the queue pairs of a machine fail.",
        ("studio-2", "studio-2 60"), ranks.decay,
    ),
    "alone": Command(
        _NODE, "Make MLX form groups of one on a machine, without an error.", ("studio-2",),
        flag("alone", "its ranks are alone", "its ranks find each other"),
    ),
    "mute": Command(
        f"{_NODE} [silent|broken|deaf]",
        "Lose or interrupt the answers of a machine's rank 0, or lose its requests, while it makes progress.",
        ("studio-1", "studio-1 broken", "studio-1 deaf"), ranks.mute,
    ),
    "garbage": Command(
        f"{_NODE} [sums|zeros|long]",
        "Give the ranks of a machine wrong results over RDMA, without an error.",
        ("studio-1", "studio-1 zeros", "studio-1 long"), ranks.garbage,
    ),
    "slow-ssh": Command(f"{_NODE} [SECONDS]", "Delay commands over SSH.", ("studio-2 5",), machines.slow_ssh),
    "partition": Command(
        _NODE, "Cut a machine off from the network, except for its Thunderbolt cables.", ("studio-2",),
        flag("partitioned", "it is cut off from the network", "it is connected to the network"),
    ),
    "change-lan": Command(
        _NODE, "Give a machine another address in the common network, as a DHCP server does.", ("studio-2",), machines.change_lan
    ),
    "set": Command(
        f"{_NODE} NAME=VALUE...", f"Set other properties of a machine: {', '.join(machines.SETTINGS)}.",
        ("studio-1 version=26.1", "studio-1 filevault=on sleep=10"), machines.set_properties, "set",
    ),
}  # fmt: skip
"""All commands by name, in the order of help."""


def happen(world: World, name: str, words: Sequence[str], moment: Moment, undo: bool = False) -> Result:
    """Return the result of a command. Raises ``Invalid`` for a wrong one, with a right example."""
    command = COMMANDS.get(name)
    if command is None:
        raise NoSuchThing(f"there is no {name!r}; expected one of {', '.join(COMMANDS)}")
    needed = [word for word in command.usage.split() if not word.startswith("[")]
    if len(words) < len(needed):
        raise Invalid(
            f"expected {command.usage}; for example: reconciler sandbox {name} {command.examples[0]}"
        )
    if undo and command.back:
        raise Invalid(f"undo {name} with {command.back}, not with --undo")
    return command.act(world, words, moment, undo)
