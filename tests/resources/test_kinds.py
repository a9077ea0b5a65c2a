"""Kinds: short forms, quantities, and that what is written can be read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reconciler.resources import KINDS, Gateway, ModelDeployment, Node


def make(kind: str, spec: dict[str, Any]) -> Any:
    body = {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    return KINDS[kind].model_validate_json(json.dumps(body))


def test_one_number_of_nodes_is_short_for_both_bounds() -> None:
    short = make("ModelDeployment", {"model": "m", "parallelism": {"nodes": 4}})
    long = make("ModelDeployment", {"model": "m", "parallelism": {"nodes": {"min": 4, "max": 4}}})
    assert isinstance(short, ModelDeployment)
    assert short == long


def test_a_deployment_of_nothing_but_a_model_has_sensible_values() -> None:
    spec = make("ModelDeployment", {"model": "m"}).spec
    assert (spec.replicas, spec.parallelism.strategy, spec.parallelism.nodes.max) == (1, "auto", 1)


@pytest.mark.parametrize(
    ("written", "size"), [("24GiB", 24 * 2**30), ("1.5 KiB", 1536), ("2GB", 2 * 10**9), ("0B", 0)]
)
def test_sizes_have_units(written: str, size: int) -> None:
    node = make("Node", {"local": {}, "memory": {"reserve": written}})
    assert isinstance(node, Node)
    assert node.spec.memory.reserve == size


@pytest.mark.parametrize("written", ["24GiB\n", "٣GiB", "9" * 400 + "TiB", "-1GiB", "2000TiB", "GiB", ""])
def test_what_is_no_size_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        make("Node", {"local": {}, "memory": {"reserve": written}})


@pytest.mark.parametrize("written", ["30", "9" * 400 + "s", "1d", "30s\n", "-1s", "100000h"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ValidationError):
        make("Gateway", {"listen": "127.0.0.1:1", "auth": {"mode": "none"}, "hold": written})


@given(
    st.decimals(0, 10_000_000, places=3),
    st.sampled_from(["ms", "s", "m", "h"]),
    st.integers(0, 2**50),
)
def test_what_is_written_is_read_again_as_the_same(duration: Any, unit: str, size: int) -> None:
    spec = {"listen": "127.0.0.1:1", "auth": {"mode": "none"}, "hold": f"{duration % 8784}{unit}"}
    for manifest in (make("Gateway", spec), make("Node", {"local": {}, "memory": {"reserve": f"{size}B"}})):
        again = type(manifest).model_validate_json(manifest.model_dump_json(by_alias=True))
        assert again == manifest


@pytest.mark.parametrize("host", ["ai.example.com", "mymac", "10.0.0.1"])
def test_an_endpoint_has_further_names(host: str) -> None:
    gateway = make("Gateway", {"listen": "127.0.0.1:1", "auth": {"mode": "none"}, "hosts": [host]})
    assert isinstance(gateway, Gateway)
    assert gateway.spec.hosts == (host,)


@pytest.mark.parametrize(
    "host", ["", "AI.example.com", "https://ai.example.com", "a:8400", "*.example.com", "a b"]
)
def test_a_name_of_an_endpoint_is_no_url_and_no_pattern(host: str) -> None:
    with pytest.raises(ValidationError):
        make("Gateway", {"listen": "127.0.0.1:1", "auth": {"mode": "none"}, "hosts": [host]})


TAINT = {"key": "dedicated", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("kind", "spec", "why"),
    [
        ("Node", {"taints": [{**TAINT, "effect": "NoExecute"}]}, "NoSchedule"),
        ("Node", {"taints": [TAINT, {**TAINT, "value": "b"}]}, "another taint has this key and effect"),
        ("Node", {"taints": [{"key": "-", "effect": "NoSchedule"}]}, "pattern"),
        ("ModelDeployment", {"tolerations": [{}]}, "Equal needs a key"),
        ("ModelDeployment", {"tolerations": [{"value": "a"}]}, "Equal needs a key"),
        (
            "ModelDeployment",
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            "takes no value",
        ),
    ],
)
def test_taints_and_tolerations_that_mean_nothing_are_refused(
    kind: str, spec: dict[str, Any], why: str
) -> None:
    fields = {"local": {}, **spec} if kind == "Node" else {"model": "m", "placement": spec}
    with pytest.raises(ValidationError, match=why):
        make(kind, fields)


@pytest.mark.parametrize("listen", ["127.0.0.1:8400", "[::1]:8400", "localhost:8400", "127.8.9.1:1"])
def test_loopback_addresses_are_accepted(listen: str) -> None:
    gateway = make("Gateway", {"listen": listen, "auth": {"mode": "none"}})
    assert isinstance(gateway, Gateway)
    assert gateway.spec.listen == listen


SPEC: dict[str, Any] = {"listen": "127.0.0.1:1", "auth": {"mode": "none"}}


@pytest.mark.parametrize("origin", ["https://app.example.com", "http://localhost:3000"])
def test_an_origin_is_what_a_browser_sends(origin: str) -> None:
    found = make("Gateway", {**SPEC, "cors": {"origins": [origin]}})
    assert isinstance(found, Gateway)
    assert found.spec.cors is not None
    assert found.spec.cors.origins == (origin,)


@pytest.mark.parametrize(
    "origin", ["app.example.com", "https://app.example.com/", "https://*.example.com", "null"]
)
def test_anything_else_is_no_origin(origin: str) -> None:
    with pytest.raises(ValidationError):
        make("Gateway", {**SPEC, "cors": {"origins": [origin]}})


def test_all_pages_may_ask_only_where_keys_are_on() -> None:
    every = {"cors": {"origins": ["*"]}}
    with pytest.raises(ValidationError, match=r"needs auth: \{mode: keys\}"):
        make("Gateway", {**SPEC, **every})
    make("Gateway", {**SPEC, **every, "auth": {"mode": "keys"}})


def test_a_proxy_that_speaks_tls_has_a_name() -> None:
    proxied = {"console": {"tlsProxy": True}}
    with pytest.raises(ValidationError, match="hosts must have the name by which browsers call the proxy"):
        make("Gateway", {**SPEC, **proxied})
    make("Gateway", {**SPEC, **proxied, "hosts": ["console.example"]})


@pytest.mark.parametrize(
    ("endpoint", "console", "clash"),
    [
        ("127.0.0.1:8400", "127.0.0.1:8400", True),
        ("localhost:8400", "127.0.0.1:8400", True),
        ("0.0.0.0:8400", "127.0.0.1:8400", True),
        ("127.0.0.1:8400", "0.0.0.0:8400", True),
        ("[::]:8400", "[::1]:8400", True),
        ("127.0.0.1:8480", None, True),
        ("127.0.0.1:8400", "[::1]:8400", False),
        ("127.0.0.2:8400", "127.0.0.1:8400", False),
        ("127.0.0.1:8400", "127.0.0.1:8401", False),
        ("0.0.0.0:8400", None, False),
    ],
)
def test_endpoint_and_console_cannot_listen_at_one_address(
    endpoint: str, console: str | None, clash: bool
) -> None:
    spec = {**SPEC, "auth": {"mode": "keys"}, "listen": endpoint}
    if console is not None:
        spec["console"] = {"listen": console}
    if clash:
        with pytest.raises(ValidationError, match="the console cannot listen at"):
            make("Gateway", spec)
        spec["console"] = {**spec.get("console", {}), "enabled": False}
    make("Gateway", spec)


@pytest.mark.parametrize("address", ["limits.example.com:6379", "10.0.0.7:6379", "[fd00::7]:6379"])
def test_a_store_of_limits_is_a_host_and_a_port_and_needs_keys(address: str) -> None:
    limits = {"limits": {"store": {"address": address}}}
    with pytest.raises(ValidationError, match=r"need auth: \{mode: keys\}"):
        make("Gateway", {**SPEC, **limits})
    make("Gateway", {**SPEC, **limits, "auth": {"mode": "keys"}})


@pytest.mark.parametrize("address", ["limits", "redis://limits:6379", "limits:", "fd00::7", "a b:1"])
def test_anything_else_is_no_address_of_a_store(address: str) -> None:
    with pytest.raises(ValidationError):
        make("Gateway", {**SPEC, "auth": {"mode": "keys"}, "limits": {"store": {"address": address}}})


def test_a_password_has_no_place_in_a_manifest() -> None:
    store = {"address": "limits:6379", "password": "open sesame"}
    with pytest.raises(ValidationError, match="password"):
        make("Gateway", {**SPEC, "auth": {"mode": "keys"}, "limits": {"store": store}})
