"""kubectl's contract, one row for each part of it, on a real controller over a real repository.

What does not hold here is in docs/kubectl.md, with the reason.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Cli, called
from .live import Live, live, manifest

READY = "deployment/tiny --for=condition=Ready"
TINY = r"modeldeployment\.reconciler/tiny"
NOTHING = "(?!.)"

CHANGED = manifest("tiny").replace("model: tiny}", "model: tiny, replicas: 2}")
NEW = manifest("tiny").replace("name: tiny}", "name: new}")
SAME = manifest("tiny")
WRONG = manifest("tiny").replace("model: tiny}", "model: tiny, replicas: -1}")

Row = tuple[str, str, int, str, str]
"""A command line, its standard input, its exit status, and patterns of standard output and standard error."""

ROWS: list[Row] = [
    # diff: 0 none, 1 differences, more than 1 for every error, wrong usage and connections among them
    ("diff -f -", SAME, 0, NOTHING, NOTHING),
    ("diff -f -", CHANGED, 1, r"^--- .*\n\+\+\+ .*\n@@", NOTHING),
    ("diff -f -", WRONG, 2, NOTHING, r"^<stdin>:\d+:\d+: spec\.replicas: .*\nerror: 1 problem"),
    ("diff -f missing.yaml", "", 2, NOTHING, "^error: "),
    ("diff --no-such-option", "", 2, NOTHING, "^error: No such option"),
    ("diff", "", 2, NOTHING, r"^error: Missing option '-f'"),
    # apply: KIND.GROUP/NAME and a word; dry runs say so
    ("apply -f -", SAME, 0, f"^{TINY} unchanged$", NOTHING),
    ("apply -f - --dry-run=client", CHANGED, 0, rf"^{TINY} configured \(dry run\)$", NOTHING),
    # here are no weights: unlike kubectl's API server, the controller says that nothing will come of it
    ("apply -f - --dry-run=server", CHANGED, 1, rf"^{TINY} configured \(server dry run\)$", "would refuse: model"),
    ("apply -f - --dry-run", NEW, 0, r"^modeldeployment\.reconciler/new created \(dry run\)$", ""),
    ("apply -f - --dry-run=none", SAME, 0, f"^{TINY} unchanged$", NOTHING),
    ("apply -f - --dry-run=maybe", SAME, 2, NOTHING, "'maybe' is not one of 'none', 'client', 'server'"),
    ("apply -f -", WRONG, 1, NOTHING, "nothing was changed"),
    ("apply", "", 2, NOTHING, "^error: expected -f FILE"),
    ("apply -f - -o name", SAME, 0, f"^{TINY}$", NOTHING),
    ("apply -R -f {manifests}", "", 0, "^node.reconciler/node-b created$", NOTHING),
    # get
    ("get nodes", "", 0, r"\ANAME +READY .*\nnode-a +", NOTHING),
    ("get node node-a node-b", "", 0, r"^node-a .*\nnode-b ", NOTHING),
    ("get node/node-a model/tiny -o name", "", 0, r"\Anode\.reconciler/node-a\nmodel\.reconciler/tiny\Z", ""),
    ("get models,gateways --no-headers", "", 0, r"\Atiny .*\n\nmain ", NOTHING),
    ("get all", "", 0, r"(?s)\Anodes:\nNAME.*\n\nmodels:\nNAME.*\n\nmodeldeployments:\nNAME", NOTHING),
    ("get big", "", 0, r"\ANAME +MODEL .*\nbig +tiny ", NOTHING),
    ("get tiny -o name", "", 0, rf"\Amodel\.reconciler/tiny\n{TINY}\Z", NOTHING),
    ("get md -L tier", "", 0, r"\ANAME .*TIER\nbig .* test\ntiny .*<none>\Z", NOTHING),
    ("get md -o wide", "", 0, r"\ANAME +MODEL .*NODES ", NOTHING),
    ("get md/tiny -o json", "", 0, r'\A\{\n  "apiVersion": "reconciler/v1alpha1"', NOTHING),
    ("get md/tiny -o=yaml", "", 0, r"\AapiVersion: reconciler/v1alpha1\n", NOTHING),
    ("get md/tiny -ojsonpath={{.spec.model}}", "", 0, r"\Atiny\Z", NOTHING),
    ("get md -o jsonpath='{{range .items[*]}}{{.metadata.name}},{{end}}'", "", 0, r"\Abig,tiny,\Z", NOTHING),
    ("get md -o custom-columns=A:.metadata.name,B:.spec.none", "", 0, r"\AA +B\nbig +<none>\n", NOTHING),
    ("get md -l tier=test -o name", "", 0, r"\Amodeldeployment\.reconciler/big\Z", NOTHING),
    ("get md --selector 'tier notin (test)' -o name", "", 0, rf"\A{TINY}\Z", NOTHING),
    ("get md --show-labels", "", 0, r"\ANAME .*LABELS\nbig .*tier=test\n", NOTHING),
    ("get md --sort-by='{{.metadata.labels.tier}}' -o name", "", 0, r"tiny\n.*big\Z", NOTHING),
    ("get md absent", "", 1, NOTHING, '^error: modeldeployments "absent" not found'),
    ("get md absent --ignore-not-found", "", 0, NOTHING, NOTHING),
    ("get md -l no=such", "", 0, NOTHING, r"\ANo resources found\Z"),
    ("get md -l no=such -o json", "", 0, r'"items": \[\]', NOTHING),
    ("get podz", "", 2, NOTHING, '^error: unknown kind "podz"'),
    ("get tinny", "", 2, NOTHING, '^error: there is no kind and no object "tinny", did you mean "tiny"'),
    ("get md -o jsonpath={{.items[}}", "", 2, NOTHING, "at character 9"),
    # wait
    (f"wait {READY}=False --timeout=30s", "", 0, f"^{TINY} condition met$", NOTHING),
    (f"wait {READY} --timeout=0", "", 1, NOTHING,
     "^error: timed out waiting for the condition on modeldeployments/tiny$"),
    ("wait md --all --for=create", "", 0, "condition met\n.*condition met", NOTHING),
    ("wait md/tiny --for=jsonpath='{{.spec.model}}'=tiny --for=create", "", 0, f"{TINY} condition met\n{TINY}", ""),
    ("wait md/absent --for=delete", "", 0, "condition met", NOTHING),
    ("wait md/absent --for=condition=Ready", "", 1, NOTHING, '^error: modeldeployments "absent" not found'),
    ("wait md -l no=such --for=condition=Ready", "", 1, NOTHING, "^error: no matching resources found$"),
    ("wait md/tiny", "", 2, NOTHING, "Missing option '--for'"),
    ("wait md/tiny --for=condition=Redy", "", 2, NOTHING, 'have no condition "Redy", did you mean "Ready"'),
    ("wait big --for=create", "", 0, "condition met$", NOTHING),
    ("wait tiny --for=create", "", 2, NOTHING, "say which: model/tiny or modeldeployment/tiny"),
    # scale, rollout
    ("scale deployment/tiny --replicas=2", "", 0, f"^{TINY} scaled$", NOTHING),
    ("scale tiny --replicas=2", "", 0, f"^{TINY} scaled$", NOTHING),
    ("scale tinny --replicas=2", "", 1, NOTHING, 'modeldeployments "tinny" not found; did you mean "tiny"'),
    ("scale deployment/tiny --replicas=1 --current-replicas=7", "", 1, NOTHING, "expected replicas of tiny to be 7"),
    ("rollout history deployment/tiny", "", 0, f"^{TINY}$", NOTHING),
    ("rollout history tiny", "", 0, f"^{TINY}$", NOTHING),
    ("rollout restart deployment/tiny", "", 0, f"^{TINY} restarted$", NOTHING),
    ("rollout undo deployment/tiny", "", 0, rf"\A{TINY} rolled back\Z",
     r'\Anote: undid [0-9a-f]{10} "Scale modeldeployment/tiny to 2" \(.+\)\Z'),
    ("rollout status deployment/tiny --timeout=1s", "", 1, "", "^error: "),
    # label, annotate, patch
    ("label node/node-a tier=test", "", 0, "^node.reconciler/node-a labeled$", NOTHING),
    ("label node-a tier=test", "", 0, "^node.reconciler/node-a not labeled$", NOTHING),
    ("label node-a tier=chat", "", 1, NOTHING, r"'tier' already has a value \(test\); add: --overwrite"),
    ("label nodes --all tier=chat --overwrite", "", 0, "^node.reconciler/node-a labeled$", NOTHING),
    ("label node-a tier-", "", 0, "^node.reconciler/node-a unlabeled$", NOTHING),
    ("label node-a", "", 2, NOTHING, "expected KEY=VALUE to set a value, or KEY- to remove one"),
    ("label node-a 'a b=c'", "", 2, NOTHING, '"a b" is no key; expected letters'),
    ("label node-a 'a=b c'", "", 2, NOTHING, 'a: "b c" could not be selected with -l'),
    ("annotate main 'who=Ada, room 4'", "", 0, "^gateway.reconciler/main annotated$", NOTHING),
    ("patch gw/main -p '{{\"metadata\": {{\"annotations\": {{\"who\": null}}}}}}'", "", 0,
     "^gateway.reconciler/main patched$", NOTHING),
    ("patch md/tiny --type=merge -p 'spec: {{model: tiny}}'", "", 0, rf"^{TINY} patched \(no change\)$", NOTHING),
    ("patch md/tiny --type=json --patch-file -", '[{"op": "test", "path": "/spec/model", "value": "tiny"}]', 0,
     rf"^{TINY} patched \(no change\)$", NOTHING),
    ("patch md/tiny -p 'spec: {{replica: 2}}'", "", 1, NOTHING, 'unknown field, did you mean "replicas"'),
    ("patch md/tiny -p 'metadata: {{name: x}}'", "", 1, NOTHING, "metadata.name cannot be changed"),
    ("patch md/tiny -p 'spec: ['", "", 1, NOTHING, "^-p:1:8: expected a value"),
    ("patch md/tiny --type=strategic -p 'spec: {{}}'", "", 2, NOTHING, "expected merge or json"),
    ("patch md/tiny", "", 2, NOTHING, "expected a patch: -p PATCH or --patch-file FILE"),
    # cordon, uncordon, drain
    ("cordon node-b", "", 0, "^node/node-b cordoned$", NOTHING),
    ("cordon node-b", "", 0, "^node/node-b already cordoned$", NOTHING),
    ("uncordon node-b", "", 0, "^node/node-b uncordoned$", NOTHING),
    ("drain node-b --dry-run=client", "", 0, r"^node/node-b drained \(dry run\)$", NOTHING),
    ("drain absent", "", 1, NOTHING, 'nodes "absent" not found'),
    # node
    ("node add --again absent", "", 1, NOTHING, '^error: there is no Node "absent" with SSH access; existing ones: none'),
    ("node add 127.0.0.1 --port=1", "", 1, NOTHING, "^error: no SSH server answers at 127.0.0.1: "),
    ("node add 127.0.0.1 --port=0", "", 2, NOTHING, "Invalid value for '--port'"),
    ("node remove x", "", 2, NOTHING, 'unknown command "remove"'),
    # doctor
    ("doctor node-x", "", 1, NOTHING, r'^error: nodes "node-x" not found; did you mean "node-'),
    # describe, events, logs
    ("describe md/tiny", "", 0, r"(?s)\AName: +tiny\n.*Labels: +<none>.*Conditions:.*Plan:.*Events:", NOTHING),
    ("describe md", "", 0, r"(?s)\AName: +big\n.*\n\n\nName: +tiny\n", NOTHING),
    ("describe md absent", "", 1, NOTHING, '^error: modeldeployments "absent" not found'),
    ("events --for deployment/tiny --types=Warning", "", 0, r"\ALAST SEEN +TYPE .*\n\S+ +Warning ", NOTHING),
    ("events --types=Odd", "", 2, NOTHING, '"Odd" is not a type of event'),
    ("logs absent", "", 1, NOTHING, '^error: modeldeployments "absent" not found'),
    ("logs deployment/tiny", "", 1, NOTHING, "^error: tiny has no group now"),
    ("logs", "", 2, NOTHING, "^error: expected one of: a deployment"),
    ("logs -l tier=test", "", 1, NOTHING, "^error: big has no group now"),
    ("logs -l tier=none", "", 1, NOTHING, "^error: no deployment has these labels"),
    ("top pods", "", 2, NOTHING, '^error: "pods" is not measured; expected nodes, ranks'),
    ("top", "", 0, r"\Anodes:\nNAME ", "no measurements of ranks now"),
    # explain, api-resources, completion, version
    ("explain md.spec.replicas", "", 0, r"\AKIND: +ModelDeployment\nVERSION: +reconciler/v1alpha1\n", NOTHING),
    ("explain md.spec.replica", "", 1, NOTHING, 'field "replica" does not exist'),
    ("api-resources", "", 0, r"\ANAME +SHORTNAMES +APIVERSION +KIND\n", NOTHING),
    ("completion bash", "", 0, "complete -o nosort -F _reconciler_completion reconciler", NOTHING),
    ("completion powershell", "", 2, NOTHING, "'powershell' is not one of"),
    ("version -o json", "", 0, '"controller": "', NOTHING),
    ("edit deployment/absent", "", 1, NOTHING, '^error: modeldeployments "absent" not found'),
    # delete
    ("delete big", "", 2, NOTHING, '"big" is a name without a kind; say: modeldeployment/big'),
    ("delete deployment big --dry-run=client", "", 0, r"^modeldeployment\.reconciler/big deleted \(dry run\)$", ""),
    ("delete deployment/big --timeout=60s", "", 0, r"^modeldeployment\.reconciler/big deleted$", ""),
    ("delete deployment big", "", 1, NOTHING, '^error: modeldeployments "big" not found'),
    ("delete deployment big --ignore-not-found", "", 0, NOTHING, NOTHING),
    ("frobnicate", "", 2, NOTHING, '^error: unknown command "frobnicate"'),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Live]:
    with live() as made:
        made.run("wait", "deployment/tiny", "--for=condition=Stalled", "--timeout=60s")
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of folders with manifests: a second node in the lower one."""
    made = tmp_path_factory.mktemp("manifests")
    (made / "lower").mkdir()
    (made / "lower" / "node.yaml").write_text(manifest("node-a").replace("name: node-a", "name: node-b"))
    return made


@pytest.fixture
def cli(
    cluster: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Cli:
    """The command line of that cluster, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return called(cluster.home, monkeypatch, capsys)


@pytest.mark.parametrize(("line", "stdin", "code", "out", "err"), ROWS, ids=[row[0] for row in ROWS])
def test_a_command_line_has_kubectl_s_effect(
    line: str, stdin: str, code: int, out: str, err: str, cli: Cli, folder: Path
) -> None:
    """In their order: later rows are about what earlier ones left."""
    done = cli(*shlex.split(line.format(manifests=folder)), stdin=stdin)
    assert done.code == code, done.out + done.err
    for pattern, shown in ((out, done.out), (err, done.err)):
        text = shown.rstrip("\n")
        assert text == "" if pattern == NOTHING else re.search(pattern, text, re.MULTILINE), shown


# --- docs/kubectl.md ---------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "kubectl.md"
KUBECTL = [
    "alpha",
    "annotate",
    "api-resources",
    "api-versions",
    "apply",
    "attach",
    "auth",
    "autoscale",
    "certificate",
    "cluster-info",
    "completion",
    "config",
    "cordon",
    "cp",
    "create",
    "debug",
    "delete",
    "describe",
    "diff",
    "drain",
    "edit",
    "events",
    "exec",
    "explain",
    "expose",
    "get",
    "help",
    "kuberc",
    "kustomize",
    "label",
    "logs",
    "options",
    "patch",
    "plugin",
    "port-forward",
    "proxy",
    "replace",
    "rollout",
    "run",
    "scale",
    "set",
    "taint",
    "top",
    "uncordon",
    "version",
    "wait",
]
"""The commands of kubectl's reference, https://kubernetes.io/docs/reference/kubectl/generated/."""


def page_rows() -> list[list[str]]:
    """The cells of the contract's rows: kubectl, here, exit, prints, why."""
    section = PAGE.read_text().partition("## The contract\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def first_again(cluster: Live) -> None:
    """The deployment as it was before the rows above."""
    cluster.apply(SAME)


@pytest.mark.usefixtures("first_again")
@pytest.mark.parametrize("row", page_rows(), ids=lambda row: row[1].strip("`"))
def test_a_row_of_the_page_holds(row: list[str], cli: Cli, tmp_path: Path) -> None:
    _, here, exit, prints, _ = row
    command = here.strip("`")
    for name, text in (("tiny", SAME), ("changed", CHANGED), ("wrong", WRONG)):
        (tmp_path / f"{name}.yaml").write_text(text)
        command = command.replace(f"{{{name}}}", f"{name}.yaml")
    done = cli(*shlex.split(command))
    assert done.code == int(exit), done.out + done.err
    assert re.search(prints.strip("`"), (done.out + done.err).rstrip("\n"), re.MULTILINE), done.out + done.err


def test_every_command_of_kubectl_is_in_the_table() -> None:
    named = " ".join(row[0] for row in page_rows())
    assert [
        command for command in KUBECTL if f"`{command}" not in named and f" {command}`" not in named
    ] == []


def test_a_row_of_wrong_usage_says_why_it_is() -> None:
    assert [row[1] for row in page_rows() if row[2] == "2" and not row[4]] == ["`diff -f absent.yaml`"]
