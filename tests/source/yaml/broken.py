"""Files that are no manifests, each wrong in its own way, and how what is said of them begins.

They are added, as `x.yaml`, to the example cluster in `manifests/`.
"""

from __future__ import annotations

from tests.e2e.cluster import deployment, node

NODE = node("node-x")
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

BROKEN: dict[str, tuple[bytes, str]] = {
    "no YAML": (b"kind: Node: x\n", "x.yaml:1:11: "),
    "a tab": (NODE.replace("  name", "\tname").encode(), "x.yaml:4:1: a tab"),
    "an unknown kind": (NODE.replace("Node", "Pod").encode(), 'x.yaml:2:7: kind: unknown kind "Pod"'),
    "an unknown field": (NODE.replace("local", "remote").encode(), "x.yaml:6:3: spec.remote: unknown field"),
    "a wrong type": (NODE.replace("node-x", "[x]").encode(), "x.yaml:4:9: metadata.name: "),
    "a name twice": (node("node-a").encode(), 'x.yaml:4:9: metadata.name: Node "node-a" already exists'),
    "a key twice": ((NODE + "kind: Node\n").encode(), "x.yaml:7:1: kind: duplicate key, first on line 2"),
    "a bomb": (BOMB.encode(), 'x.yaml:1:4: a: an anchor ("&")'),
    "a merge key": ((NODE + "  <<: {}\n").encode(), 'x.yaml:7:3: spec: merging with "<<"'),
    "a program": (b"\x7fELF\x02\x01\x01\0\0\0", "x.yaml:1:1: the character U+007F"),
    "bytes": (b"\xff\0", "x.yaml:1:1: not UTF-8 text"),
    "line ends of another age": (NODE.replace("\n", "\r").encode(), "x.yaml:1:32: the character U+000D"),
    "a deep nest": (b"a: " + b"[" * 5000 + b"\n", "[0][0]: nested more than 32 levels deep"),
    "a huge word": (NODE.replace("node-x", "x" * 500_000).encode(), "x.yaml:4:9: metadata.name: "),
    "a huge file": (b"# " + b"x" * 1_100_000, "x.yaml:1:1: the file has 1100002 bytes"),
    "documents without end": (b"---\n" * 5000, "x.yaml:4097:1: more than 4096 documents"),
    "a thousand, one of them wrong": (
        "---\n".join([*(node(f"n{i}") for i in range(999)), "kind: Nod\n"]).encode(),
        'x.yaml:6994:7: kind: unknown kind "Nod"',
    ),
    "a second gateway": (
        b"apiVersion: reconciler/v1alpha1\nkind: Gateway\nmetadata: {name: b}\n"
        b"spec: {listen: '127.0.0.1:1', auth: {mode: none}}\n",
        "x.yaml:2:7: kind: only one Gateway is allowed",
    ),
    "an alias that is a name": (
        deployment("other", 2).replace("  serving:", "  serving:\n    aliases: [tiny]").encode(),
        'spec.serving.aliases[0]: "tiny" is already the name of ModelDeployment "tiny"',
    ),
}
