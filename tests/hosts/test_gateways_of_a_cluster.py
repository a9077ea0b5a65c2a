"""A whole cluster whose Gateway names its nodes: a gateway on each of them answers as the controller's own does."""

from __future__ import annotations

import openai
import pytest

from tests.e2e.cluster import MODEL, Cluster

from .conftest import DEPLOYMENT, GATEWAY, over
from .model import write_model
from .network import Host, network

pytestmark = [pytest.mark.timeout(400), pytest.mark.nightly]

BOTH = GATEWAY.replace("127.0.0.1:8400", "0.0.0.0:8400").replace(
    "auth: {mode: none}", "auth: {mode: keys}\n  nodes: [host-a, host-b]"
)


def answered(url: str, secret: str) -> int:
    """The tokens of an answer."""
    client = openai.OpenAI(base_url=url, api_key=secret, max_retries=0, timeout=60)
    answer = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "hello"}], max_tokens=8, temperature=0
    )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def gateways(host: Host) -> list[int]:
    return host.programs("gateway-")


def others(cluster: Cluster) -> dict[str, object]:
    status = cluster.json("get", "gateways")["items"][0]["status"]
    return {each["node"]: each["problem"] for each in status["others"]}


def test_each_node_of_the_gateway_answers_for_the_group_across_them() -> None:
    with network("host-a", "host-b") as hosts:
        for host in hosts.hosts:
            write_model(host.root / "models" / "tiny")
        with over(hosts, (MODEL, DEPLOYMENT), BOTH) as cluster:
            secret = cluster.run("key", "create", "both").stdout.strip()
            cluster.wait("both", lambda: others(cluster) == {"host-a": None, "host-b": None})
            urls = [cluster.endpoint(), *(f"http://{host.address}:8400/v1" for host in hosts.hosts)]
            cluster.wait("each to know the key", lambda: {answered(url, secret) for url in urls} == {8})
            said = cluster.ask("describe", "gateway", "main")
            assert "1/3" in said, "each has its share of limits"
            # A look at a gateway names it as well, for a moment.
            cluster.wait("one each", lambda: [len(gateways(host)) for host in hosts.hosts] == [1, 1])
            manifest = cluster.source.parent / "manifests" / "tiny.yaml"
            manifest.write_text(manifest.read_text().replace("[host-a, host-b]", "[host-b]"))
            cluster.run("apply", "-f", str(manifest))
            cluster.wait("one to end", lambda: not gateways(hosts.hosts[0]))
            assert answered(urls[2], secret) == 8
            manifest.write_text(manifest.read_text().replace("[host-b]", "[]"))
            cluster.run("apply", "-f", str(manifest))
            cluster.wait("the other to end", lambda: not gateways(hosts.hosts[1]))
