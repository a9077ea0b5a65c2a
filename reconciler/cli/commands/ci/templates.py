"""The workflows that `ci init` writes: a common part, and the parts of each forge. Pure."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

DISTRIBUTION = "mlx-reconciler"
CHECKOUT = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"
"""Named by its commit, because a tag may be moved."""
FACTS = ".reconciler/facts.json"
_HEAD = re.compile(r"# Written by `reconciler ci init (\w+)` \S+, digest ([0-9a-f]{16})\.[^\n]*\n")


@dataclass(frozen=True, slots=True)
class Forge:
    """The parts of a workflow that differ between forges."""

    path: str
    """Path of the workflow in the repository."""
    machine: str
    """Lines of the job that choose its machine."""
    prepared: str = ""
    """Lines of a script that install missing tools on the machine."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of the product for the workflow. No public index has it: there, a stranger may take its name."""

    wheel: str = ""
    """URL of a wheel, or its path in the repository."""
    index: str = ""
    """URL of an index that has ``version``."""
    version: str = ""
    digest: str = ""
    """SHA-256 of the wheel, in hexadecimal."""
    requirements: str = ""
    """Path of a requirements file in the repository, with hashes of everything; it replaces the other fields."""

    @property
    def script(self) -> str:
        """Return the lines that install it, each value quoted for the shell."""
        pip = '"$RUNNER_TEMP/reconciler/bin/pip"'
        quiet = "--quiet --disable-pip-version-check"
        if self.requirements:
            return f"          {pip} install {quiet} --require-hashes -r {shlex.quote(self.requirements)}\n"
        folder, index = (
            '"$RUNNER_TEMP/wheel"',
            f" --index-url {shlex.quote(self.index)}" if self.index else "",
        )
        if self.index:
            named = shlex.quote(f"{DISTRIBUTION}=={self.version}")
            got = f"{pip} download {quiet} --no-deps --only-binary :all:{index} -d {folder} {named}"
        elif "://" in self.wheel:
            got = f"{pip} download {quiet} --no-deps -d {folder} {shlex.quote(self.wheel)}"
        else:
            got = f"mkdir -p {folder} && cp {shlex.quote(self.wheel)} {folder}/"
        return (
            f"          {got}\n"
            f'          wheel=$(ls -d "$RUNNER_TEMP"/wheel/*.whl)\n'
            f'          echo "{self.digest}  $wheel" | sha256sum --check --strict --quiet\n'
            f'          {pip} install {quiet}{index} "$wheel[runtime]"\n'
        )


FORGES: Mapping[str, Forge] = {
    "github": Forge(".github/workflows/reconciler.yaml", "    runs-on: ubuntu-latest\n"),
    "forgejo": Forge(
        ".forgejo/workflows/reconciler.yaml",
        "    runs-on: docker\n    container: {image: node:22-bookworm}\n",
        "          if ! python3 -I -c 'import ensurepip' 2>/dev/null; then\n"
        "            apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv\n"
        "          fi\n",
    ),
}

_BODY = """\
name: reconciler
on:
  pull_request:

permissions:
  contents: read
  pull-requests: write # for the comment

concurrency:
  group: reconciler-${{ github.event.pull_request.number }}
  cancel-in-progress: true

defaults:
  run: {shell: bash}

jobs:
  review:
MACHINE    timeout-minutes: 30
    env:
      MANIFESTS: FOLDER
    steps:
      - uses: CHECKOUT
        with:
          fetch-depth: 0 # the rehearsal begins with what was there before
          persist-credentials: false

      - name: Install
        timeout-minutes: 10
        run: |
PREPARED          python3 -I -m venv "$RUNNER_TEMP/reconciler"
INSTALL          echo "$RUNNER_TEMP/reconciler/bin" >> "$GITHUB_PATH"
          mkdir -p "$RUNNER_TEMP/review"

      - name: Validate
        timeout-minutes: 2
        run: |
          if ! reconciler validate --references -f "$MANIFESTS" 2>&1 | tee "$RUNNER_TEMP/review/validation.txt"; then
            reconciler validate --references -f "$MANIFESTS" -o github # marks the lines
            exit 1
          fi

      # With RECONCILER_SSH (ssh://user@host), RECONCILER_KNOWN_HOSTS and the secret RECONCILER_SSH_KEY, the running
      # cluster is asked. That key gives full control of the cluster. Without it, recorded facts are used.
      - name: Plan
        timeout-minutes: 5
        env:
          RECONCILER_SSH: ${{ vars.RECONCILER_SSH }}
          RECONCILER_KNOWN_HOSTS: ${{ vars.RECONCILER_KNOWN_HOSTS }}
          RECONCILER_SSH_KEY: ${{ secrets.RECONCILER_SSH_KEY }}
        run: |
          if [ -n "$RECONCILER_SSH" ] && [ -n "$RECONCILER_SSH_KEY" ]; then
            umask 077
            keys=$(mktemp -d "$RUNNER_TEMP/keys.XXXXXX")
            trap 'rm -rf "$keys"' EXIT # no later step has the key
            printf '%s\\n' "$RECONCILER_SSH_KEY" > "$keys/key"
            printf '%s\\n' "$RECONCILER_KNOWN_HOSTS" > "$keys/known_hosts"
            reconciler context add cluster "$RECONCILER_SSH" --identity-file "$keys/key" --known-hosts "$keys/known_hosts"
            reconciler --context cluster plan -f "$MANIFESTS" | tee "$RUNNER_TEMP/review/plan.txt"
          elif [ -f FACTS ]; then
            reconciler plan -f "$MANIFESTS" --facts FACTS | tee "$RUNNER_TEMP/review/plan.txt"
          else
            echo 'no facts are recorded: reconciler facts export -o FACTS' | tee "$RUNNER_TEMP/review/plan.txt"
          fi

      - name: Rehearse
        timeout-minutes: 15
        env:
          BASE: ${{ github.event.pull_request.base.sha }}
        run: |
          reconciler rehearse -f "$MANIFESTS" --base "$BASE" --minutes 12 -o markdown \\
            | tee "$RUNNER_TEMP/review/rehearsal.md"

      - name: Comment
        if: ${{ !cancelled() }}
        timeout-minutes: 2
        env:
          GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
        run: reconciler ci comment "$RUNNER_TEMP/review"
"""


def workflow(forge: str, version: str, origin: Origin, folder: str = ".") -> str:
    """Return the text of a workflow. ``version``: the version of the product. ``folder``: the folder of the manifests."""
    one = FORGES[forge]
    body = _BODY
    for word, text in (
        ("MACHINE", one.machine), ("PREPARED", one.prepared), ("FOLDER", f"'{folder}'"), ("CHECKOUT", CHECKOUT),
        ("INSTALL", origin.script), ("FACTS", FACTS),
    ):  # fmt: skip
        body = re.sub(rf"(?<![A-Z_]){word}(?![A-Z_])", lambda _, text=text: text, body)  # type: ignore[misc]
    digest = _digest(body)
    return (
        f"# Written by `reconciler ci init {forge}` {version}, digest {digest}. Run it again after an upgrade.\n"
        f"{body}"
    )


def edited(text: str) -> bool:
    """Return whether a person has written or changed a workflow: it is then replaced only on request."""
    head = _HEAD.match(text)
    return head is None or head[2] != _digest(text[head.end() :])


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:16]
