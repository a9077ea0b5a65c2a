"""The tools of an emulated Mac, by their names. Pure: their output follows from the world and the live facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import network, rdma, system
from .call import ToolCall, ToolOutput, refused

TOOLS: Mapping[str, Callable[[ToolCall], ToolOutput]] = {
    "defaults": system.defaults,
    "df": system.df,
    "fdesetup": system.fdesetup,
    "find": system.find,
    "ibv_devices": rdma.ibv_devices,
    "ibv_devinfo": rdma.ibv_devinfo,
    "id": system.identity,
    "ifconfig": network.ifconfig,
    "ioclasscount": rdma.ioclasscount,
    "ioreg": system.ioreg,
    "launchctl": system.launchctl,
    "netstat": network.netstat,
    "networksetup": network.networksetup,
    "nvram": rdma.nvram,
    "pgrep": system.pgrep,
    "pmset": system.pmset,
    "powermetrics": system.powermetrics,
    "profiles": system.profiles,
    "ps": system.ps,
    "rdma_ctl": rdma.rdma_ctl,
    "route": system.quiet,
    "shutdown": system.shutdown,
    "socketfilterfw": system.socketfilterfw,
    "sudo": system.sudo,
    "sw_vers": system.sw_vers,
    "sysctl": system.sysctl,
    "system_profiler": rdma.system_profiler,
    "tmutil": system.tmutil,
    "touch": system.touch,
    "uname": system.uname,
    "unlink": system.unlink,
    "vm_stat": system.vm_stat,
    "xcode-select": system.xcode_select,
}


def answer(call: ToolCall) -> ToolOutput:
    tool = TOOLS.get(call.argv[0]) if call.argv else None
    return tool(call) if tool else refused(call, "this machine has no such tool", 127)
