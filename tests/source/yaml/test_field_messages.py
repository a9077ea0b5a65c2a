"""What is said of fields that do not fit their kind: exact words, exact places."""

from __future__ import annotations

import pytest

from reconciler.errors import InvalidManifests
from reconciler.source.yaml.documents import load

DEPLOYMENT = """\
apiVersion: reconciler/v1alpha1
kind: ModelDeployment
metadata:
  name: llama
  labels:
    team: a
spec:
  model: llama-3
  replicas: 1
  parallelism:
    strategy: auto
    nodes: {min: 1, max: 2}
  placement:
    nodeSelector: {pool: a}
  serving:
    context: 4096
    maxBatch: 16
    aliases: [gpt-4o]
"""
GATEWAY = """\
apiVersion: reconciler/v1alpha1
kind: Gateway
metadata:
  name: main
spec:
  listen: 127.0.0.1:8400
  auth:
    mode: none
  hold: 30s
"""
NODE = """\
apiVersion: reconciler/v1alpha1
kind: Node
metadata:
  name: a
spec:
  local: {}
  memory:
    reserve: 1GiB
  unschedulable: false
"""
NOTIFIER = """\
apiVersion: reconciler/v1alpha1
kind: Notifier
metadata:
  name: on-call
spec:
  webhook:
    url: http://127.0.0.1:9000/s3cret
  tell: [opened]
"""

FABRIC = """\
apiVersion: reconciler/v1alpha1
kind: Fabric
metadata:
  name: studios
spec:
  addressing:
    pool: 10.77.0.0/16
  links:
    - [a/3, b/3]
    - [a/4, c/3]
""" + "".join(
    f"---\napiVersion: reconciler/v1alpha1\nkind: Node\nmetadata: {{name: {name}}}\nspec: {{local: {{}}}}\n"
    for name in "abc"
)
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPbP3JZnBSCsPkM5XQd6EuNmIpQ8p2mFHwqbIqNlNnY7"
ONE_TRANSPORT = "use either local or ssh: local: {} for the controller's own machine, ssh: {host, user, hostKey} for another"
NAME_RULE = 'expected lower-case letters, digits, "-" and ".", with a letter or digit at both ends, got'

CASES: dict[str, tuple[str, str, str, str]] = {
    # name: a valid document, a part of it, what that becomes, the problem
    "a misspelt field": (
        DEPLOYMENT, "parallelism:", "paralellism:",
        '10:3: spec.paralellism: unknown field, did you mean "parallelism"?',
    ),
    "a field in another notation": (
        DEPLOYMENT, "maxBatch:", "max_batch:",
        '17:5: spec.serving.max_batch: unknown field, did you mean "maxBatch"?',
    ),
    "a field of nothing known": (
        DEPLOYMENT, "maxBatch:", "temperature:",
        "17:5: spec.serving.temperature: unknown field; the fields here are context, ropeScaling, maxBatch, kvCache, maxStall, prefixCache, sampling, thinking, stopRepetition, embedding, aliases",
    ),
    "a field of mlx_lm.server that cannot be": (
        DEPLOYMENT, "maxBatch: 16", "kv_bits: 8",
        "17:5: spec.serving.kv_bits: unknown field: mlx-lm quantizes the cache of one request at a time, not of a batch: see docs/models.md",
    ),
    "a field of vLLM that cannot be": (
        DEPLOYMENT, "maxBatch: 16", "speculativeConfig: {model: small}",
        "17:5: spec.serving.speculativeConfig: unknown field: mlx-lm guesses ahead with a draft model for one request at a time, not for a batch: see docs/models.md",
    ),
    "a field of transformers that has another name": (
        DEPLOYMENT, "maxBatch: 16", "ropeScaling: {rope_type: yarn, factor: 4, originalContext: 32768}",
        "17:5: spec.serving.ropeScaling.type: required field is missing\n"
        'manifests/llama.yaml:17:19: spec.serving.ropeScaling.rope_type: unknown field: use "type"',
    ),
    "a kind of rope scaling that a field cannot say": (
        DEPLOYMENT, "maxBatch: 16", "ropeScaling: {type: longrope, factor: 4, originalContext: 32768}",
        '17:25: spec.serving.ropeScaling.type: expected one of yarn, linear, llama3, got "longrope"',
    ),
    "a rope scaling that makes nothing longer": (
        DEPLOYMENT, "maxBatch: 16", "ropeScaling: {type: yarn, factor: 1, originalContext: 32768}",
        "17:39: spec.serving.ropeScaling.factor: expected more than 1.0, got 1",
    ),
    "a field of vLLM that has another name": (
        DEPLOYMENT, "context: 4096", "max_model_len: 4096",
        '16:5: spec.serving.max_model_len: unknown field: use "context"',
    ),
    "a task of vLLM": (
        DEPLOYMENT, "maxBatch: 16", "task: embed",
        '17:5: spec.serving.task: unknown field: use "embedding"',
    ),
    "a pooling that there is not": (
        DEPLOYMENT, "maxBatch: 16", "embedding: {pooling: max}",
        '17:26: spec.serving.embedding.pooling: expected one of last, mean, cls, got "max"',
    ),
    "embeddings on several nodes": (
        DEPLOYMENT, "maxBatch: 16", "embedding: {}",
        "16:5: spec.serving: a model for embeddings runs on one node: set parallelism.nodes to 1",
    ),
    "a field where there are none": (
        NODE, "local: {}", "local: {path: x}",
        "6:11: spec.local.path: unknown field; there are no fields here",
    ),
    "a node that is reached in no way": (
        NODE, "  local: {}\n", "",
        f"6:3: spec: {ONE_TRANSPORT}",
    ),
    "a node that is reached in two ways": (
        NODE, "local: {}", f"local: {{}}\n  ssh: {{host: a, user: b, hostKey: {HOST_KEY}}}",
        f"6:3: spec: {ONE_TRANSPORT}",
    ),
    "a host key that is none": (
        NODE, "local: {}", "ssh: {host: a, user: b, hostKey: AAAAC3NzaC1lZDI1NTE5}",
        '6:36: spec.ssh.hostKey: not a public key of OpenSSH, such as "ssh-ed25519 AAAA…": copy the line in'
        " /etc/ssh/ssh_host_ed25519_key.pub of the machine",
    ),
    "a host key as known_hosts has it": (
        NODE, "local: {}", f"ssh: {{host: a, user: b, hostKey: host {HOST_KEY}}}",
        "6:36: spec.ssh.hostKey: this is a line of known_hosts: remove its first word, so that it begins with the key's"
        " type",
    ),
    "a host key that was cut off": (
        NODE, "local: {}", f"ssh: {{host: a, user: b, hostKey: {HOST_KEY[:72]}}}",
        "6:36: spec.ssh.hostKey: the public key is incomplete: all of its base64 must follow ssh-ed25519, on one line",
    ),
    "an interpreter without its folder": (
        NODE, "local: {}", "local: {}\n  python: python3",
        '7:11: spec.python: expected an absolute path, got "python3"',
    ),
    "an address that is a name": (
        NODE, "local: {}", "local: {}\n  address: studio.local",
        '7:12: spec.address: expected an IPv4 address such as "192.168.1.20", got "studio.local" (a string)',
    ),
    "a field of a short form written out": (
        DEPLOYMENT, "{min: 1, max: 2}", "{min: 1, max: 2, mx: 3}",
        '12:29: spec.parallelism.nodes.mx: unknown field, did you mean "max"?',
    ),
    "a field at the top": (
        DEPLOYMENT, "spec:", "extra: {}\nspec:",
        "7:1: extra: unknown field; the fields here are apiVersion, kind, metadata, spec",
    ),
    "a field that is missing": (
        DEPLOYMENT, "  model: llama-3\n", "",
        "7:1: spec.model: required field is missing",
    ),
    "a field that is missing at the top": (
        DEPLOYMENT, "metadata:\n  name: llama\n  labels:\n    team: a\n", "",
        "1:1: metadata: required field is missing",
    ),
    "a mapping without its fields": (
        GATEWAY, "auth:\n    mode: none", "auth: {}",
        "7:3: spec.auth.mode: required field is missing",
    ),
    "a mapping that is empty": (
        GATEWAY, "auth:\n    mode: none", "auth:",
        "7:3: spec.auth: expected a mapping, got nothing",
    ),
    "another apiVersion": (
        DEPLOYMENT, "reconciler/v1alpha1", "reconciler/v1",
        '1:13: apiVersion: expected "reconciler/v1alpha1", got "reconciler/v1"',
    ),
    "no apiVersion": (
        DEPLOYMENT, "apiVersion: reconciler/v1alpha1\n", "",
        "1:1: apiVersion: required field is missing",
    ),
    "a string where a number belongs": (
        DEPLOYMENT, "replicas: 1", 'replicas: "1"',
        '9:13: spec.replicas: expected a whole number, got "1" (a string)',
    ),
    "a fraction where a whole number belongs": (
        DEPLOYMENT, "replicas: 1", "replicas: 1.5",
        "9:13: spec.replicas: expected a whole number, got 1.5 (a number)",
    ),
    "a list where a number belongs": (
        DEPLOYMENT, "replicas: 1", "replicas:\n  - 1",
        "10:3: spec.replicas: expected a whole number, got a list",
    ),
    "a boolean where a number belongs": (
        DEPLOYMENT, "replicas: 1", "replicas: yes",
        "9:13: spec.replicas: expected a whole number, got yes (a boolean)",
    ),
    "a number below its range": (
        DEPLOYMENT, "replicas: 1", "replicas: -1",
        "9:13: spec.replicas: expected at least 0, got -1",
    ),
    "a number above its range": (
        DEPLOYMENT, "replicas: 1", "replicas: 100000",
        "9:13: spec.replicas: expected at most 64, got 100000",
    ),
    "a short form out of range": (
        DEPLOYMENT, "{min: 1, max: 2}", "0",
        "12:12: spec.parallelism.nodes: expected at least 1, got 0",
    ),
    "a short form of the wrong type": (
        DEPLOYMENT, "{min: 1, max: 2}", '"2"',
        "12:12: spec.parallelism.nodes: expected a whole number, or a mapping with min and max, "
        'got "2" (a string)',
    ),
    "bounds the wrong way round": (
        DEPLOYMENT, "{min: 1, max: 2}", "{min: 4, max: 2}",
        "12:26: spec.parallelism.nodes.max: max must not be below min",
    ),
    "a word that is nearly one of a few": (
        DEPLOYMENT, "strategy: auto", "strategy: tensr",
        '11:15: spec.parallelism.strategy: expected one of auto, tensor, pipeline; did you mean "tensor"?',
    ),
    "a word that is none of a few": (
        DEPLOYMENT, "strategy: auto", "strategy: 7b",
        '11:15: spec.parallelism.strategy: expected one of auto, tensor, pipeline, got "7b"',
    ),
    "a number that is none of a few": (
        DEPLOYMENT, "strategy: auto", "strategy: 7",
        "11:15: spec.parallelism.strategy: expected one of auto, tensor, pipeline, got 7 (a number)",
    ),
    "another word where there is one": (
        GATEWAY, "mode: none", "mode: token",
        '8:11: spec.auth.mode: expected one of none, keys, got "token"',
    ),
    "no, which is a boolean": (
        DEPLOYMENT, "team: a", "team: no",
        "6:11: metadata.labels.team: expected a string, got no (a boolean); put it in quotes",
    ),
    "a number as a label": (
        DEPLOYMENT, "team: a", "team: 1.10",
        "6:11: metadata.labels.team: expected a string, got 1.10 (a number); put it in quotes",
    ),
    "nothing as a label": (
        DEPLOYMENT, "team: a", "team:",
        "6:5: metadata.labels.team: expected a string, got nothing",
    ),
    "a label that is too long": (
        DEPLOYMENT, "team: a", "team: " + "a" * 64,
        "6:11: metadata.labels.team: expected at most 63 characters, got 64",
    ),
    "a name with capitals": (
        DEPLOYMENT, "name: llama", "name: Llama 3",
        f'4:9: metadata.name: {NAME_RULE} "Llama 3"',
    ),
    "a name with a line break": (
        DEPLOYMENT, "name: llama", 'name: "llama\\n"',
        f'4:9: metadata.name: {NAME_RULE} "llama\N{REPLACEMENT CHARACTER}"',
    ),
    "a name that is empty": (
        DEPLOYMENT, "name: llama", 'name: ""',
        f'4:9: metadata.name: {NAME_RULE} ""',
    ),
    "a name that is too long": (
        DEPLOYMENT, "name: llama", "name: " + "a" * 64,
        "4:9: metadata.name: expected at most 63 characters, got 64",
    ),
    "text that is empty": (
        DEPLOYMENT, "[gpt-4o]", '[gpt-4o, ""]',
        "18:23: spec.serving.aliases[1]: expected at least 1 character, got 0",
    ),
    "a context that is no number": (
        DEPLOYMENT, "context: 4096", "context: long",
        '16:14: spec.serving.context: expected "auto", or a whole number from 16 to 16777216, got "long" (a string)',
    ),
    "a string where a list belongs": (
        DEPLOYMENT, "[gpt-4o]", "gpt-4o",
        '18:14: spec.serving.aliases: expected a list, got "gpt-4o" (a string)',
    ),
    "a mapping where a list belongs": (
        DEPLOYMENT, "[gpt-4o]", "{gpt-4o: llama}",
        "18:14: spec.serving.aliases: expected a list, got a mapping",
    ),
    "a list where a mapping belongs": (
        DEPLOYMENT, "nodeSelector: {pool: a}", "nodeSelector: [pool, a]",
        "14:19: spec.placement.nodeSelector: expected a mapping, got a list",
    ),
    "a word where true or false belongs": (
        NODE, "unschedulable: false", "unschedulable: maybe",
        '9:18: spec.unschedulable: expected true or false, got "maybe" (a string)',
    ),
    "a size without a unit": (
        NODE, "1GiB", "24",
        '8:14: spec.memory.reserve: expected a size such as "24GiB" or "512MiB", got 24 (a number)',
    ),
    "a size of another unit": (
        NODE, "1GiB", "24 gigs",
        '8:14: spec.memory.reserve: expected a size such as "24GiB" or "512MiB", got "24 gigs" (a string)',
    ),
    "a size beyond reason": (
        NODE, "1GiB", "9999TiB",
        '8:14: spec.memory.reserve: expected a size of at most 1024TiB, got "9999TiB" (a string)',
    ),
    "a duration without a unit": (
        GATEWAY, "30s", "30",
        '9:9: spec.hold: expected a duration such as "30s", "5m" or "1h", got 30 (a number)',
    ),
    "an address that is not on loopback": (
        GATEWAY, "127.0.0.1:8400", "0.0.0.0:8400",
        "6:11: spec.listen: 0.0.0.0 is not a loopback address, and without authentication the endpoint must stay "
        "on this machine; with auth: {mode: keys} it may have any address",
    ),
    "an address without a port": (
        GATEWAY, "127.0.0.1:8400", "localhost",
        '6:11: spec.listen: expected "address:port" such as "127.0.0.1:8400", got "localhost" (a string)',
    ),
    "a port that is none": (
        GATEWAY, "127.0.0.1:8400", "127.0.0.1:70000",
        '6:11: spec.listen: expected a port from 1 to 65535, such as "127.0.0.1:8400", '
        'got "127.0.0.1:70000" (a string)',
    ),
    "a secret in the wrong place": (
        DEPLOYMENT, "replicas: 1", "replicas: hf_" + "s" * 200,
        f'9:13: spec.replicas: expected a whole number, got "hf_{"s" * 37}…" (a string)',
    ),
    "a webhook of another machine": (
        NOTIFIER, "http://127.0.0.1:9000", "https://example.com",
        "7:10: spec.webhook.url: the host is not this machine: such a URL is a secret, and manifests are in git; "
        "use urlFrom: {env: NAME} or {file: PATH}",
    ),
    "a webhook without a scheme": (
        NOTIFIER, "http://127.0.0.1:9000", "example.com",
        '7:10: spec.webhook.url: not a URL such as "http://127.0.0.1:9000/hook"',
    ),
    "a webhook with two URLs": (
        NOTIFIER, "  tell:", "    urlFrom: {env: HOOK}\n  tell:",
        "8:14: spec.webhook.urlFrom: use exactly one of url, urlFrom.env and urlFrom.file",
    ),
    "a webhook with no URL": (
        NOTIFIER, "url: http://127.0.0.1:9000/s3cret", "urlFrom: {}",
        "7:14: spec.webhook.urlFrom: use exactly one of url, urlFrom.env and urlFrom.file",
    ),
    "an occasion that is none": (
        NOTIFIER, "[opened]", "[openend]",
        '8:10: spec.tell[0]: expected one of opened, personNeeded, closed; did you mean "opened"?',
    ),
    "a link of one end": (
        FABRIC, "[a/4, c/3]", "[a/4]",
        "10:7: spec.links[1]: expected two ends, such as [studio-1/3, studio-2/3], got 1",
    ),
    "a link that is no pair": (
        FABRIC, "[a/4, c/3]", "a/4",
        '10:7: spec.links[1]: expected a list, got "a/4" (a string)',
    ),
    "an end without a receptacle": (
        FABRIC, "c/3", "c",
        '10:13: spec.links[1][1]: expected node/receptacle, such as "studio-1/3", got "c" (a string)',
    ),
    "an end at an interface": (
        FABRIC, "c/3", "c/en3",
        '10:13: spec.links[1][1]: expected node/receptacle, such as "studio-1/3", got "c/en3" (a string)',
    ),
    "a link of a node with itself": (
        FABRIC, "[a/4, c/3]", "[a/4, a/5]",
        "10:7: spec.links[1]: both ends are on a, but a link joins two nodes",
    ),
    "a receptacle with two cables": (
        FABRIC, "[a/4, c/3]", "[a/3, c/3]",
        "6:3: spec: links 1 and 2 both end at a/3, but a receptacle takes one cable",
    ),
    "an untested link that is none": (
        FABRIC, "[a/4, c/3]", "[a/4, c/3]\n  allowUntested:\n    - [c/3, a/5]",
        "6:3: spec: allowUntested has [a/5, c/3], which is not one of links: add it there, or remove it",
    ),
    "a pool that is no network": (
        FABRIC, "10.77.0.0/16", "ten",
        '7:11: spec.addressing.pool: expected an IPv4 network such as "10.77.0.0/16", got "ten" (a string)',
    ),
    "a pool with a host's address": (
        FABRIC, "10.77.0.0/16", "10.77.0.1/16",
        '7:11: spec.addressing.pool: expected the network address and its prefix, "10.77.0.0/16", got'
        ' "10.77.0.1/16" (a string)',
    ),
    "a pool of addresses that others have": (
        FABRIC, "10.77.0.0/16", "169.254.0.0/16",
        "7:11: spec.addressing.pool: expected a network within 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, got"
        ' "169.254.0.0/16" (a string)',
    ),
    "a pool with too little room": (
        FABRIC, "10.77.0.0/16", "10.77.0.0/30",
        "6:3: spec: addressing.pool 10.77.0.0/30 has room for 1 links, but there are 2: use a shorter prefix",
    ),
    "an unknown kind": (
        DEPLOYMENT, "kind: ModelDeployment", "kind: Deployment",
        '2:7: kind: unknown kind "Deployment", did you mean "ModelDeployment"?',
    ),
    "a kind in small letters": (
        NODE, "kind: Node", "kind: node",
        '2:7: kind: unknown kind "node", did you mean "Node"?',
    ),
    "a kind of another system": (
        NODE, "kind: Node", "kind: Service",
        '2:7: kind: unknown kind "Service"; expected one of Node, Fabric, Model, ModelDeployment, Gateway, Notifier, ApiKey, SyncWindow, Job',
    ),
    "a kind that is no text": (
        NODE, "kind: Node", "kind: [Node]",
        "2:7: kind: expected one of Node, Fabric, Model, ModelDeployment, Gateway, Notifier, ApiKey, SyncWindow, Job",
    ),
    "no kind": (
        NODE, "kind: Node\n", "",
        "1:1: kind: required field is missing; expected one of Node, Fabric, Model, ModelDeployment, Gateway, Notifier, ApiKey, SyncWindow, Job",
    ),
}  # fmt: skip


def message_of(text: str) -> str:
    with pytest.raises(InvalidManifests) as caught:
        load({"manifests/llama.yaml": text.encode()})
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_field_is_explained_where_it_is(name: str) -> None:
    valid, part, replacement, expected = CASES[name]
    load({"manifests/llama.yaml": valid.encode()})
    assert valid.count(part) == 1
    assert message_of(valid.replace(part, replacement)) == f"manifests/llama.yaml:{expected}"


def test_all_wrong_fields_are_named_at_once_in_the_order_of_the_text() -> None:
    text = (
        DEPLOYMENT.replace("strategy", "strateg")
        .replace("replicas: 1", "replicas: x")
        .replace("team: a", "team: 1")
    )
    assert [line.split(":")[1] for line in message_of(text).split("\n")] == ["6", "9", "11"]


def test_a_place_that_is_refused_as_yaml_is_not_refused_again_as_a_field() -> None:
    assert message_of(DEPLOYMENT.replace("replicas: 1", "replicas: 01")) == (
        'manifests/llama.yaml:9:13: spec.replicas: 01 is the number 1 in YAML; write 1, or "01" in quotes'
    )


def test_columns_count_characters_rather_than_bytes() -> None:
    text = DEPLOYMENT.replace("{pool: a}", '{"größe": "groß", b: 5}')
    assert message_of(text) == (
        "manifests/llama.yaml:14:40: spec.placement.nodeSelector.b: expected a string, got 5 (a number); put it in quotes"
    )
