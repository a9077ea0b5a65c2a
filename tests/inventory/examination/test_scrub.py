"""What identifies somebody does not survive, and what is read of a machine does."""

from __future__ import annotations

import ipaddress
import json
import re
import string
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.inventory.examination.probing import LEFT_OUT
from reconciler.inventory.examination.script import scrubber
from reconciler.inventory.probes import management, network, system, thunderbolt, upkeep, verbs
from reconciler.inventory.probes.probe import Probe
from reconciler.wire.tools import ToolSaid
from tests.inventory.probes.cases import load

from .scrubbing import ended, facts, private, scrub

pytestmark = pytest.mark.processes

AWKS = [
    "awk",
    *(
        pytest.param(awk, marks=pytest.mark.needs(awk.split()[0]))
        for awk in ("mawk", "gawk --posix", "original-awk", "busybox awk")
    ),
]
HEX = "0123456789abcdef"
CASES = load()
HOMES = "/Users"
OF_DOCKS = {"fusiondock", "ivanky", "thunderbay", "flex"}
"""Names of things, which a person may have as well: they are replaced."""
LETTERS = string.ascii_lowercase


def text_of(said: dict[str, ToolSaid]) -> str:
    return "\n".join(each.stdout + each.stderr for each in said.values())


# --- everything at once ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Identity:
    """Everything that could tell whose a machine is."""

    user: str
    host: str
    owner: str
    serial: str
    macs: list[str]
    domains: list[str]
    guids: list[str]
    public: str
    ipv6: str
    organisation: str
    service: str

    def tokens(self) -> list[str]:
        return [
            self.user, self.host, self.owner, self.serial, *self.macs, *self.domains, *self.guids, self.public,
            self.ipv6, self.organisation, self.service, *[mac.replace(":", "") for mac in self.macs],
        ]  # fmt: skip

    def names(self) -> list[tuple[str, str]]:
        return [("user", self.user), ("host", self.host), ("user", self.owner), ("SERIAL", self.serial)]


def digits(alphabet: str, size: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=size, max_size=size)


def words(prefix: str) -> st.SearchStrategy[str]:
    """Names that stand for themselves: none that a tool prints anyway."""
    return st.text(LETTERS, min_size=4, max_size=9).map(lambda word: f"{prefix}{word}")


def various(text: str) -> bool:
    """Whether it cannot be taken for one of the numbers that replace others."""
    return len(set(text)) > 5


MACS = digits(HEX, 12).filter(various).map(lambda text: ":".join(text[at : at + 2] for at in range(0, 12, 2)))
UUIDS = (
    digits(HEX.upper(), 32).filter(various).map(lambda t: f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}")
)
GUIDS = digits(HEX, 16).filter(various)
PUBLIC = (
    st.integers(0x01000000, 0xDF000000).map(ipaddress.IPv4Address).map(str).filter(lambda ip: not private(ip))
)
IPV6 = digits(HEX, 16).map(
    lambda t: f"2a0{t[0]}:{'1' + t[1:4]}:{'1' + t[5:8]}::{'1' + t[9:12]}:{'1' + t[13:16]}"
)
IDENTITIES = st.builds(
    Identity,
    words("u"), words("h"), words("o").map(lambda word: f"{word.title()} {word[::-1].title()}"),
    digits(string.ascii_uppercase + string.digits, 10).map(lambda text: f"C{text}"),
    st.lists(MACS, min_size=3, max_size=3, unique=True), st.lists(UUIDS, min_size=3, max_size=3, unique=True),
    st.lists(GUIDS, min_size=2, max_size=2, unique=True), PUBLIC, IPV6, words("acme"), words("vpn"),
)  # fmt: skip


def outputs(who: Identity) -> dict[Probe[Any], ToolSaid]:
    """What the tools of such a machine print, where it tells of somebody."""
    home = f"/Users/{who.user}"
    profile = [
        {
            "_name": "thunderboltusb4_bus_0", "device_name_key": "Mac mini", "domain_uuid_key": who.domains[0],
            "device_serial_number_key": who.serial, "switch_uid_key": f"0x{who.guids[0].upper()}",
            "receptacle_1_tag": {
                "current_speed_key": "80 Gb/s", "receptacle_id_key": "1",
                "receptacle_status_key": "receptacle_connected",
            },
            "_items": [{"_name": f"{who.owner}'s Mac mini", "domain_uuid_key": who.domains[1], "device_name_key": "Mac16,11"}],
        }
    ]  # fmt: skip
    eui = who.macs[1].replace(":", "")
    local = f"fe80::{eui[:4]}:{eui[4:6]}ff:fe{eui[6:8]}:{eui[8:]}"
    return {
        thunderbolt.RECEPTACLES: ended(json.dumps({"SPThunderboltDataType": profile}, indent=2) + "\n"),
        network.INTERFACES: ended(
            "en0: flags=8863<UP,BROADCAST,RUNNING> mtu 1500\n"
            f"\tether {who.macs[0]}\n\tinet6 {who.ipv6} prefixlen 64 autoconf\n"
            f"\tinet {who.public} netmask 0xffffff00 broadcast {who.public.rpartition('.')[0]}.255\n\tstatus: active\n"
            "en2: flags=8863<UP,BROADCAST,RUNNING> mtu 1500\n"
            f"\tether {who.macs[1]}\n\tinet6 {local}%en2 prefixlen 64 scopeid 0xb\n"
            "\tinet 10.77.0.1 netmask 0xfffffffc broadcast 10.77.0.3\n\tstatus: active\n"
        ),
        network.ROUTES: ended(
            "Routing tables\n\nInternet:\nDestination        Gateway            Flags               Netif Expire\n"
            f"default            {who.public}          UGScg                 en0\n"
            f"{who.public.rpartition('.')[0]}/24   link#4             UCS                   en0      !\n"
            f"{who.public}   {who.macs[2]}   UHLWIir   en0   1170\n"
            "10.77.0.0/30       link#12            UCS                   en2      !\n"
        ),
        network.SERVICES: ended(
            f"An asterisk (*) denotes that a network service is disabled.\n(1) {who.service} of {who.organisation}\n"
            f"(Hardware Port: com.{who.organisation}.vpn, Device: )\n\n(2) Thunderbolt 1\n"
            "(Hardware Port: Thunderbolt 1, Device: en2)\n"
        ),
        network.HARDWARE_PORTS: ended(
            f"\nHardware Port: Ethernet\nDevice: en0\nEthernet Address: {who.macs[0]}\n"
            f"\nHardware Port: Thunderbolt 1\nDevice: en2\nEthernet Address: {who.macs[1]}\n"
            f"\nHardware Port: {who.owner} Phone\nDevice: en7\nEthernet Address: {who.macs[2]}\n"
        ),
        verbs.DEVICES: ended(f"    device          \t   node GUID\n    ------\t----\n    rdma_en2        \t{who.guids[0]}\n"),
        verbs.VERBS_PORTS: ended(
            f"hca_id:\trdma_en2\n\tnode_guid:\t\t\t{':'.join(who.guids[0][at : at + 4] for at in range(0, 16, 4))}\n"
            f"\tsys_image_guid:\t\t\t{':'.join(who.guids[1][at : at + 4] for at in range(0, 16, 4))}\n\t\tport:\t1\n"
            f"\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tGID[  0]:\t\t{local}\n\t\t\tGID[  1]:\t\t::ffff:10.77.0.1\n"
            f"\t\t\tGID[  2]:\t\t::ffff:{who.public}\n\t\t\tGID[  3]:\t\t{who.ipv6}\n"
        ),
        system.DISK: ended(
            "Filesystem   1024-blocks      Used Available Capacity  Mounted on\n"
            + 2 * f"//{who.user}@{who.host}.local/home   482797652 375406176  66002164    86%    {home}\n"
        ),
        management.USER_REPORTS: ended(f"{home}/Library/Logs/DiagnosticReports/python3-2026-10-06-231500_{who.host}.ips\n"),
        management.ENROLMENT: ended(
            f"Enrolled via DEP: No\nMDM enrollment: Yes\nMDM server: https://mdm.{who.organisation}.com/{who.serial}\n"
        ),
        upkeep.BACKUP: ended(f"[Included] {home}/.reconciler/models\n"),
        management.FILEVAULT: ended(f"FileVault is Off.\nasked by {who.user}@{who.organisation}.com on {who.host.upper()}\n"),
    }  # fmt: skip


@given(IDENTITIES)
def test_no_token_of_an_identity_survives_and_the_same_facts_are_read(who: Identity) -> None:
    raw = outputs(who)
    said = scrub(raw, who.names()).said
    left = text_of(dict(said)).lower()
    assert [token for token in who.tokens() if token.lower() in left] == []
    for probe, before in raw.items():
        assert facts(probe, said[probe.name]) == facts(probe, before), probe.name
        assert facts(probe, before) != "unknown"


@pytest.mark.parametrize("awk", AWKS)
def test_every_awk_gives_the_same(awk: str) -> None:
    raw = {case.probe: case.output for case in CASES if case.known}
    names = [("user", "ada"), ("host", "Adas-Mac-Studio"), ("SERIAL", "C02XXXXXXXXX")]
    assert scrub(raw, names, awk) == scrub(raw, names)


# --- what each tool was seen to print ----------------------------------------------------------------


def test_the_facts_of_every_sample_are_read_after_scrubbing_too() -> None:
    for at in range(max(len([c for c in CASES if c.tool == case.tool]) for case in CASES)):
        raw = {}
        for tool in {case.tool for case in CASES}:
            of_tool = [case for case in CASES if case.tool == tool]
            if at < len(of_tool):
                raw[of_tool[at].probe] = of_tool[at].output
        said = scrub(raw).said
        for probe, before in raw.items():
            assert facts(probe, said[probe.name]) == facts(probe, before), (probe.name, at)


def test_a_user_or_machine_may_be_called_as_any_word_of_a_tool() -> None:
    said_of = "".join(case.output.stdout + case.output.stderr for case in CASES).lower()
    names = set(re.findall(r"(?<![a-z0-9])[a-z]{3,}(?![a-z0-9])", said_of)) - OF_DOCKS
    raw = {case.probe: case.output for case in CASES if case.known and case.probe.name not in LEFT_OUT}
    said = scrub(raw, [("user", name) for name in sorted(names)]).said
    assert [
        probe.name for probe, before in raw.items() if facts(probe, said[probe.name]) != facts(probe, before)
    ] == []


def test_no_pattern_has_a_slash_in_brackets_which_the_awk_of_macos_takes_for_its_end() -> None:
    patterns = re.findall(r"\[[^\]\n]*\]", scrubber())
    assert [each for each in patterns if re.search(r"(?<!\\)/", each)] == []


# --- single rules ------------------------------------------------------------------------------------


def one(text: str, probe: Probe[Any] = management.FILEVAULT, names: tuple[tuple[str, str], ...] = ()) -> str:
    return scrub({probe: ended(f"{text}\n")}, names).said[probe.name].stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("Sat Jul 25 22:06:41 2026", "Sat Jul 25 22:06:41 2026"),
        ("hw.memsize: 549755813888", "hw.memsize: 549755813888"),
        ("inet6 ::1 prefixlen 128, fe80::1%lo0", "inet6 ::1 prefixlen 128, fe80::1%lo0"),
        ("0xfffffffc 0xfa0000 4096 (5)", "0xfffffffc 0xfa0000 4096 (5)"),
        ("192.168.1.7 100.64.0.7 169.254.3.4", "192.168.1.7 100.64.0.7 169.254.3.4"),
        ("ether 2:0:0:0:0:7", "ether 02:00:00:00:00:01"),
        ("17.5.7.10 and 17.5.7.1", "198.18.1.10 and 198.18.1.1"),
        (f"{HOMES}/grace/Library", f"{HOMES}/user/Library"),
        ("Serial Number (system): C02ZW0ABCD", "Serial Number: SERIAL"),
        ("Grace’s MacBook Pro", "Someone's MacBook Pro"),
        ("grace.hopper@navy.example", "someone@example.com"),
        ("0xDEADBEEF01234567", "0x0000000000000001"),
    ],
)
def test_a_value_is_replaced_by_its_own_kind_and_what_tells_nobody_stays(text: str, scrubbed: str) -> None:
    assert one(text) == scrubbed


def test_equal_values_stay_equal_and_others_different() -> None:
    mac, guid = "36:4d:04:ea:4e:40", "02005efffe005307"
    text = one(f"{mac} {mac.upper()} 36:4d:04:ea:4e:41 {guid} 0200:5eff:fe00:5307")
    a, b, c, d, e = text.split()
    assert a == b != c
    assert d == e.replace(":", "")


def test_two_files_agree_on_the_uuids_of_a_cable() -> None:
    here, there = "DCA2B6F5-1111-4000-8000-ABCDEF000001", "F74D8F9B-2222-4000-8000-ABCDEF000002"
    first, second = one(f"{here} {there}").split(), one(f"{there.lower()} {here}").split()
    assert first == second[::-1]
    assert first[0] != first[1]


def test_a_name_is_replaced_as_a_whole_word_in_any_case() -> None:
    names = (("user", "grace"), ("host", "Grace-Hopper-2"))
    assert one("GRACE grace-hopper-2.local disgraceful gracefully", names=names) == (
        "user host.local disgraceful gracefully"
    )


@pytest.mark.parametrize("name", ["Mac-mini-2", "mini-1", "active", "ab"])
def test_a_name_that_tells_nobody_is_left(name: str) -> None:
    assert one(f"status: {name}", names=(("host", name),)) == f"status: {name}"


def test_an_abbreviated_public_route_is_replaced() -> None:
    line = "17.5/16            link#4             UCS                   en7      !"
    assert one(line, network.ROUTES).split()[0] == "198.18.1/16"
    assert one("10.20/16 link#4 UCS en7", network.ROUTES).split()[0] == "10.20/16"
