"""Tools that show and change the network of an emulated Mac, in the formats of real ones."""

from __future__ import annotations

import ipaddress
import re

from reconciler.errors import Invalid
from reconciler.sandbox.world import changes
from reconciler.sandbox.world.state import BRIDGE, SHARED, SHARING_BRIDGE, Machine, Port

from .call import NOT_ROOT, ToolCall, ToolOutput, refused
from .rdma import link_local

_LAN, _ADAPTER = "en0", "en20"


def ifconfig(call: ToolCall) -> ToolOutput:
    words = call.words
    if words in ((), ("-a",)):
        return ToolOutput("".join(_blocks(call).values()))
    name = words[0]
    if name not in _blocks(call):
        return refused(call, f"interface {name} does not exist")
    if len(words) == 1:
        return ToolOutput(_blocks(call)[name])
    if not call.root:
        return refused(call, f"ioctl (SIOCAIFADDR): {NOT_ROOT}")
    try:
        return _changed(call, name, words[1:])
    except (Invalid, ValueError, IndexError) as error:
        return refused(call, str(error))


def _changed(call: ToolCall, name: str, words: tuple[str, ...]) -> ToolOutput:
    port = call.machine.port_of(name)
    if name == BRIDGE:
        return _bridge_changed(call, words)
    if port is None or words in (("up",), ("down",)):
        return ToolOutput()  # no source shows the behaviour of a real one here
    if words[0] != "inet":
        return refused(call, f"{words[0]}: bad value")
    if words[-1] in ("-alias", "delete", "remove"):
        left = [each for each in port.addresses if each.partition("/")[0] != words[1]]
        if len(left) == len(port.addresses):
            return refused(call, "ioctl (SIOCDIFADDR): Can't assign requested address")
        return _addressed(call, port, *left)
    if port.bridged:
        return ToolOutput()  # it accepts one, but has no address while it is a member
    given = _interface(words[1], words[words.index("netmask") + 1] if "netmask" in words else "")
    others = [each for each in port.addresses[0 if words[-1] in ("alias", "add") else 1 :] if each != given]
    return _addressed(call, port, *others, given)


def _addressed(call: ToolCall, port: Port, *addresses: str) -> ToolOutput:
    return ToolOutput(world=changes.set_addresses(call.world, call.name, port.receptacle, *addresses))


def _interface(address: str, mask: str) -> str:
    """Return ``10.77.0.1`` and ``0xfffffffc`` or ``255.255.255.252`` as ``10.77.0.1/30``. Raises ``ValueError``."""
    if mask.startswith("0x"):
        mask = str(ipaddress.IPv4Address(int(mask, 16)))
    return str(ipaddress.IPv4Interface(f"{address}/{mask}" if mask else address))


def _bridge_changed(call: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    match words:
        case ("destroy",):
            return ToolOutput(world=changes.drop_bridge(call.world, call.name))
        case ("deletem" | "addm" as verb, *names):
            world = call.world
            for name in [each for each in names if each not in ("deletem", "addm")]:
                port = call.machine.port_of(name)
                if name == _ADAPTER and verb == "deletem" and call.machine.adapter:
                    world = changes.with_machine(world, call.name, adapter=False)
                    continue
                if port is None or (verb == "deletem" and port.bridge != BRIDGE):
                    return refused(call, f"BRDGDEL {name}: No such file or directory")
                world = changes.bridge(world, call.name, port.receptacle, verb == "addm")
            return ToolOutput(world=world)
        case _:
            return ToolOutput()


def _blocks(call: ToolCall) -> dict[str, str]:
    """Return the output for each interface, by its name."""
    machine = call.machine
    blocks = {
        "lo0": "lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384\n\tinet 127.0.0.1 netmask 0xff000000\n",
        _LAN: "en0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n"
        "\tinet 127.0.0.1 netmask 0xff000000 broadcast 127.255.255.255\n"
        f"\tmedia: autoselect (10Gbase-T <full-duplex>)\n\tstatus: {'in' if machine.faults.partitioned else ''}active\n",
    }
    for port in machine.ports:
        blocks[port.interface] = _port(call, port)
    if machine.adapter:
        blocks[_ADAPTER] = (
            f"{_ADAPTER}: flags=8963<UP,BROADCAST,SMART,RUNNING,PROMISC,SIMPLEX,MULTICAST> mtu 1500\n"
            "\tmedia: autoselect (1000baseT <full-duplex,flow-control>)\n\tstatus: active\n"
        )
    if machine.bridge:
        blocks[BRIDGE] = _bridge(machine, BRIDGE, "")
    if any(port.bridge == SHARING_BRIDGE for port in machine.ports):
        blocks[SHARING_BRIDGE] = _bridge(machine, SHARING_BRIDGE, f"{SHARED[1]}/{SHARED.prefixlen}")
    return blocks


def _port(call: ToolCall, port: Port) -> str:
    promiscuous = "PROMISC," if port.bridged else ""
    number = 8963 if port.bridged else 8863
    text = (
        f"{port.interface}: flags={number}<UP,BROADCAST,SMART,RUNNING,{promiscuous}SIMPLEX,MULTICAST> mtu 1500\n"
        f"\toptions=460<TSO4,TSO6,CHANNEL_IO>\n\tether {port.mac}\n"
    )
    if not port.bridged:
        text += f"\tinet6 {link_local(port)}%{port.interface} prefixlen 64 secured scopeid 0x{port.receptacle + 8:x}\n"
    text += "" if port.bridged else "".join(map(_inet, port.addresses))
    if not port.bridged:
        text += "\tnd6 options=201<PERFORMNUD,DAD>\n"
    active = call.world.is_active((call.name, port.receptacle), call.now)
    return f"{text}\tmedia: autoselect <full-duplex>\n\tstatus: {'active' if active else 'inactive'}\n"


def _inet(address: str) -> str:
    given = ipaddress.IPv4Interface(address)
    return (
        f"\tinet {given.ip} netmask 0x{int(given.netmask):08x} broadcast {given.network.broadcast_address}\n"
    )


def _bridge(machine: Machine, name: str, address: str) -> str:
    members = [(port.interface, port.receptacle + 9) for port in machine.ports if port.bridge == name]
    if name == BRIDGE and machine.adapter:
        members.append((_ADAPTER, 30))
    rows = "".join(
        f"\tmember: {interface} flags=3<LEARNING,DISCOVER>\n"
        f"\t        ifmaxaddr 0 port {number} priority 0 path cost 0\n"
        for interface, number in members
    )
    return (
        f"{name}: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n"
        f"\toptions=63<RXCSUM,TXCSUM,TSO4,TSO6>\n\tether {machine.ports[0].mac}\n\tConfiguration:\n"
        "\t\tid 0:0:0:0:0:0 priority 0 hellotime 0 fwddelay 0\n"
        "\t\tmaxage 0 holdcnt 0 proto stp maxaddr 100 timeout 1200\n"
        "\t\troot id 0:0:0:0:0:0 priority 0 ifcost 0 port 0\n\t\tipfilter disabled flags 0x0\n"
        f"{rows}{_inet(address) if address else ''}\tnd6 options=201<PERFORMNUD,DAD>\n\tmedia: <unknown type>\n\tstatus: inactive\n"
    )


def networksetup(call: ToolCall) -> ToolOutput:
    match call.words:
        case ("-listallhardwareports",):
            return ToolOutput(_hardware_ports(call.machine))
        case ("-listnetworkserviceorder",):
            return ToolOutput(_services(call.machine))
        case ("-setmanual", service, address, mask, *_):
            return _configured(call, service, _interface(address, mask))
        case ("-setdhcp" | "-setv4off", service, *_):
            return _configured(call, service)
        case _:
            return refused(
                call, "of this machine it knows no more than its ports, their order and their addresses"
            )


def _configured(call: ToolCall, service: str, *addresses: str) -> ToolOutput:
    """Set the addresses that the service of a port has; with some, macOS gives it no others by itself."""
    if not call.root:
        return ToolOutput("** Error: Command requires admin privileges.\n", code=14)
    port = next((each for each in call.machine.ports if each.service and each.label == service), None)
    if port is None:
        return ToolOutput(
            f"{service} is not a recognized network service.\n** Error: The parameters were not valid.\n",
            code=4,
        )
    if port.bridged:
        return ToolOutput()
    world = call.world
    if addresses:
        world = changes.keep(world, call.name, port.receptacle, lambda _: None)
    return ToolOutput(world=changes.set_addresses(world, call.name, port.receptacle, *addresses))


def _hardware_ports(machine: Machine) -> str:
    ports = [("Ethernet", _LAN, "36:00:00:00:00:00")]
    if machine.adapter:
        ports.append(("USB 10/100/1000 LAN", _ADAPTER, "36:00:00:00:00:14"))
    if machine.bridge:
        ports.append(("Thunderbolt Bridge", BRIDGE, machine.ports[0].mac))
    ports += [(port.label, port.interface, port.mac) for port in machine.ports]
    blocks = [
        f"Hardware Port: {name}\nDevice: {device}\nEthernet Address: {mac}\n" for name, device, mac in ports
    ]
    return "\n" + "\n".join(blocks) + "\nVLAN Configurations\n===================\n"


def _services(machine: Machine) -> str:
    ports = [("Ethernet", _LAN), *([("Thunderbolt Bridge", BRIDGE)] if machine.bridge else [])]
    ports += [(port.label, port.interface) for port in machine.ports if port.service]
    rows = [
        f"({at}) {name}\n(Hardware Port: {name}, Device: {device})\n"
        for at, (name, device) in enumerate(ports, 1)
    ]
    return "An asterisk (*) denotes that a network service is disabled.\n" + "\n".join(rows)


def netstat(call: ToolCall) -> ToolOutput:
    """``-rn -f inet``: its routes; else its listening ports."""
    if any(re.fullmatch(r"-n?rn?", word) for word in call.words):
        return ToolOutput(_routing(call))
    rows = [
        f"tcp4       0      0  {f'127.0.0.1.{port}':<22} {'*.*':<22} LISTEN\n"
        for port in sorted(call.live.ports)
    ]
    head = "Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)\n"
    return ToolOutput("Active Internet connections (including servers)\n" + head + "".join(rows))


def _routing(call: ToolCall) -> str:
    """Return the routes of IPv4. The LAN is all of loopback, as it is for ``ifconfig``. A lease of another Mac has the
    default route."""
    machine = call.machine
    leased = [
        port
        for port in machine.ports
        if port.lease and call.world.is_active((call.name, port.receptacle), call.now)
    ]
    shares = any(port.bridge == SHARING_BRIDGE for port in machine.ports)
    over = ((str(SHARED[1]), "UGScg", port.interface, "") for port in leased[:1])
    rows = [
        *(("default", gateway, flags, netif, expire) for gateway, flags, netif, expire in over),
        ("default", "127.0.0.1", "UGScIg" if leased else "UGScg", _LAN, ""),
        *([(str(SHARED), "link#21", "UCS", SHARING_BRIDGE, "!")] if shares else []),
        *((str(net), f"link#{port.receptacle + 8}", "UCS", port.interface, "!") for port, net in _networks(machine)),
        ("127", "127.0.0.1", "UCS", "lo0", ""),
        ("127", "link#4", "UCS", _LAN, "!"),
        ("127.0.0.1", "127.0.0.1", "UH", "lo0", ""),
        ("169.254", "link#4", "UCS", _LAN, "!"),
        ("224.0.0/4", "link#4", "UmCS", _LAN, "!"),
        ("255.255.255.255/32", "link#4", "UCS", _LAN, "!"),
    ]  # fmt: skip
    head = "Routing tables\n\nInternet:\nDestination        Gateway            Flags               Netif Expire\n"
    return head + "".join(
        f"{to:<18} {over:<18} {flags:<16} {netif:>8} {expire:>6}\n" for to, over, flags, netif, expire in rows
    )


def _networks(machine: Machine) -> list[tuple[Port, ipaddress.IPv4Network]]:
    """Return the networks of its Thunderbolt ports, by their addresses."""
    return [
        (port, ipaddress.IPv4Interface(address).network)
        for port in machine.ports
        for address in port.addresses
        if port.ips
    ]
