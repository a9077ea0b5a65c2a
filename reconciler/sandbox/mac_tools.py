"""The tools of an emulated Mac, by their names. Pure: what one says follows from the world and what runs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import tools_network, tools_rdma, tools_system
from .asked import Asked, Said, refused

TOOLS: Mapping[str, Callable[[Asked], Said]] = {
    "df": tools_system.df,
    "fdesetup": tools_system.fdesetup,
    "find": tools_system.find,
    "ibv_devices": tools_rdma.ibv_devices,
    "ibv_devinfo": tools_rdma.ibv_devinfo,
    "id": tools_system.identity,
    "ifconfig": tools_network.ifconfig,
    "ioclasscount": tools_rdma.ioclasscount,
    "ioreg": tools_system.ioreg,
    "launchctl": tools_system.launchctl,
    "netstat": tools_network.netstat,
    "networksetup": tools_network.networksetup,
    "nvram": tools_rdma.nvram,
    "pgrep": tools_system.pgrep,
    "pmset": tools_system.pmset,
    "powermetrics": tools_system.powermetrics,
    "profiles": tools_system.profiles,
    "ps": tools_system.ps,
    "rdma_ctl": tools_rdma.rdma_ctl,
    "route": tools_system.quiet,
    "shutdown": tools_system.shutdown,
    "sudo": tools_system.sudo,
    "sw_vers": tools_system.sw_vers,
    "sysctl": tools_system.sysctl,
    "system_profiler": tools_rdma.system_profiler,
    "uname": tools_system.uname,
    "vm_stat": tools_system.vm_stat,
    "xcode-select": tools_system.xcode_select,
}


def answer(asked: Asked) -> Said:
    """What the tool says that was asked."""
    tool = TOOLS.get(asked.argv[0]) if asked.argv else None
    return tool(asked) if tool else refused(asked, "this machine has no such tool", 127)
