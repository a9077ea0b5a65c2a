"""Hints for people who know kubectl or Flux: the command here, or the reason why there is none."""

from __future__ import annotations

from itertools import chain

_APPLY = "use: reconciler apply -f FILE"
_STATE = "use: reconciler get all"
_STOP = "Ctrl-C in the terminal of `reconciler up` stops every rank; for one deployment: reconciler delete deployment/NAME"
_LOGS = "ranks take no commands; see their output with: reconciler logs DEPLOYMENT"
_GIT = "a push to the cluster repository takes effect at once; see what is happening with: reconciler plan"
_REMOTE = f"look at a remote repository now: reconciler source sync; {_GIT}"
_SOURCE = "a remote repository: reconciler source show"
_NO_PLUGINS = "there are no plugins and no settings of your own; see: reconciler help"
_NO_ROLES = "anybody who can open the controller's socket may do everything; clients have keys: reconciler get apikeys"
_NO_NAMESPACES = "there are no namespaces; omit it"
_HOME = "a cluster is a state folder, here or elsewhere: reconciler --home PATH, or reconciler --context NAME"

_CONSOLE = "use: reconciler console"
_CHAT = "use: reconciler chat MODEL"
_MODELS = "a model is a manifest, and its weights come by themselves: reconciler apply -f FILE"
_JOBS = "a job is a manifest: reconciler apply -f FILE; the fields: reconciler explain job.spec"
_JOB_STATES = "use: reconciler get jobs"
_RUNS = "runs belong to jobs: reconciler get jobs, or reconciler describe job/NAME"
_SPEED = "the speed of what is served: reconciler top ranks; which machine or link is slow: reconciler verify DEPLOYMENT"

COMMANDS = {
    **dict.fromkeys(("alpha", "kuberc", "plugin"), _NO_PLUGINS),
    **dict.fromkeys(("attach", "cp", "debug", "exec"), _LOGS),
    **dict.fromkeys(("auth", "certificate"), _NO_ROLES),
    "autoscale": "groups grow where there is room (spec.growth); the number of replicas: reconciler scale deployment/NAME --replicas=N",
    "bootstrap": "use: reconciler source set URL, and reconciler ci init for pull requests",
    **dict.fromkeys(("check", "ping"), "use: reconciler doctor"),
    "cluster-info": "use: reconciler get gateways",
    **dict.fromkeys(("create", "replace", "add", "deploy"), _APPLY),
    **dict.fromkeys(("down", "kill"), _STOP),
    "export": "use: reconciler get KIND/NAME -o yaml",
    "expose": "every deployment is served by the gateway: reconciler get gateways",
    **dict.fromkeys(("health", "ls", "stats", "status", "info"), _STATE),
    "kustomize": "render first: kustomize build DIR | reconciler apply -f -",
    "list": "use: reconciler get KIND, such as: reconciler get models; the kinds: reconciler api-resources",
    "options": "use: reconciler --help",
    **dict.fromkeys(
        ("port-forward", "proxy"), "the gateway listens on this machine: reconciler get gateways"
    ),
    "ps": "use: reconciler get ranks",
    **dict.fromkeys(("reconcile", "sync"), _REMOTE),
    **dict.fromkeys(("rm", "destroy", "prune", "remove", "rm-all"), "use: reconciler delete KIND/NAME"),
    "run": "a deployment is a manifest, and a job too: reconciler apply -f FILE; to ask a model: reconciler chat MODEL QUESTION;"
    " to run a job again: reconciler restart job/NAME",
    **dict.fromkeys(("mpiexec", "mpirun", "nomad", "salloc", "sbatch", "srun", "submit"), _JOBS),
    **dict.fromkeys(("qsub", "bsub", "dispatch"), _JOBS),
    **dict.fromkeys(("qstat", "sacct", "squeue"), _JOB_STATES),
    **dict.fromkeys(("qdel", "scancel"), "use: reconciler cancel job/NAME"),
    "scontrol": "use: reconciler describe job/NAME",
    "sinfo": "use: reconciler get nodes",
    "serve": "use: reconciler up",
    "set": "use: reconciler patch KIND/NAME -p PATCH, or reconciler edit KIND/NAME",
    "taint": "taints are in the manifest of a Node: reconciler edit node/NAME, then spec.taints",
    "watch": "use: reconciler get KIND -w",
    **dict.fromkeys(("ask", "generate"), _CHAT),
    **dict.fromkeys(("bench", "benchmark"), _SPEED),
    **dict.fromkeys(("browse", "dashboard", "open", "tui", "ui", "web", "webui"), _CONSOLE),
    **dict.fromkeys(("build", "convert", "download", "import", "load", "pull", "search"), _MODELS),
    "clone": "use: git clone of what `reconciler init` prints",
    "configure": "each setting is a field of a manifest: reconciler explain KIND",
    "dmesg": "use: reconciler logs --controller, or reconciler events",
    "etcd": "what survives a restart: reconciler backup",
    "examine": "use: reconciler node examine HOST",
    "flux": _SOURCE,
    "images": "use: reconciler get models",
    "inspect": "use: reconciler describe KIND/NAME",
    "join": "use: reconciler node add HOST",
    "kubeconfig": _HOME,
    "login": "clients have keys: reconciler key create NAME",
    "monitor": "use: reconciler get all -w, or reconciler top nodes",
    "pause": "use: reconciler rollout pause deployment/NAME",
    "push": "use: git push, or reconciler apply -f FILE",
    "reset": "use: reconciler uninstall --purge; to keep what is there: reconciler stop",
    "service": "use: reconciler install",
    "show": "use: reconciler get KIND, or reconciler describe KIND/NAME",
    "shutdown": "use: reconciler stop",
    "tail": "use: reconciler logs DEPLOYMENT -f",
    "test": "use: reconciler rehearse, or reconciler verify DEPLOYMENT",
    "unload": "use: reconciler scale deployment/NAME --replicas=0",
    "update": "use: reconciler edit KIND/NAME, or reconciler upgrade",
    "use": "use: reconciler context use NAME",
    "config view": "use: reconciler context list",
    **dict.fromkeys(("config set-context", "config set-cluster"), "use: reconciler context add NAME WHERE"),
    "config delete-context": "use: reconciler context remove NAME",
    "key list": "use: reconciler get apikeys",
    "key delete": "use: reconciler delete apikey/NAME; to end a key and tell its clients why: reconciler key revoke NAME",
}
"""Hints by the words after `reconciler`."""

VERBS = {
    **dict.fromkeys(("get", "list", "ls", "ps", "show", "status", "view"), "get {kinds}"),
    **dict.fromkeys(("describe", "info", "inspect"), "describe {kind}/NAME"),
    **dict.fromkeys(("delete", "destroy", "remove", "rm", "uninstall"), "delete {kind}/NAME"),
    **dict.fromkeys(
        ("add", "apply", "create", "deploy", "new", "pull", "download", "register"), "apply -f FILE"
    ),
    **dict.fromkeys(("edit", "set", "change", "configure"), "edit {kind}/NAME"),
    **dict.fromkeys(("log", "logs", "tail"), "logs DEPLOYMENT"),
    **dict.fromkeys(("restart",), "rollout restart deployment/NAME"),
    **dict.fromkeys(("reboot", "drain", "cordon", "uncordon"), "{word} NODE"),
    **dict.fromkeys(("shutdown", "stop", "down"), "stop"),
    **dict.fromkeys(("start", "up"), "start"),
    **dict.fromkeys(("top", "stats", "usage"), "top nodes"),
    **dict.fromkeys(("check", "health", "ping", "diagnose"), "doctor"),
    **dict.fromkeys(("label", "annotate"), "{word} {kind}/NAME KEY=VALUE"),
    **dict.fromkeys(("patch",), "patch {kind}/NAME -p PATCH"),
    **dict.fromkeys(("scale",), "scale deployment/NAME --replicas=N"),
    **dict.fromkeys(("wait",), "wait {kind}/NAME --for=condition=Ready"),
    **dict.fromkeys(("trace",), "trace {kind}/NAME"),
}
"""Our command for a word after the group of commands for a kind, such as `node list`."""
GROUPS = {
    "node": ("node", "nodes"),
    "model": ("model", "models"),
    "key": ("apikey", "apikeys"),
    "fabric": ("fabric", "fabrics"),
    "rollout": ("deployment", "deployments"),
}
"""The kind of each group of commands, singular and plural."""
OTHER_GROUPS = {
    "sandbox": "use: reconciler sandbox status",
    "source": _SOURCE,
    "context": "use: reconciler context list",
    "config": "use: reconciler context list",
    "facts": "use: reconciler facts export",
    "ci": "use: reconciler ci init",
}


def for_word(groups: list[str], word: str) -> str:
    """Return the command to use for a word after `reconciler` and these groups; empty if the meaning is unknown."""
    from reconciler.resources import PLURALS, SHORT_NAMES

    if (path := " ".join([*groups, word])) in COMMANDS:
        return COMMANDS[path]
    if groups and word not in VERBS:
        return ""
    if groups and groups[0] in GROUPS:
        kind, kinds = GROUPS[groups[0]]
        return f"use: reconciler {VERBS[word].format(kind=kind, kinds=kinds, word=word)}"
    if groups:
        return OTHER_GROUPS.get(groups[0], "")
    if word in KINDS:
        return KINDS[word]
    return f"use: reconciler get {word}" if word in (*PLURALS.values(), *chain(*SHORT_NAMES.values())) else ""


_RANKS = "processes are called ranks: reconciler get ranks"
_DEPLOYMENTS = "a served model is a deployment: reconciler get deployments"
_NOTIFIERS = "messages about incidents go to notifiers: reconciler get notifiers"
_FABRICS = "cables are declared in a fabric: reconciler get fabrics"
_ENDPOINT = "the endpoint is a gateway: reconciler get gateways"

KINDS = {
    "agents": "an agent belongs to its node: reconciler get nodes",
    **dict.fromkeys(("cables", "links"), _FABRICS),
    **dict.fromkeys(("containers", "po", "pod", "pods", "processes"), _RANKS),
    **dict.fromkeys(("daemonsets", "replicasets", "rs", "statefulsets", "sts"), _DEPLOYMENTS),
    **dict.fromkeys(("endpoints", "ing", "ingress", "ingresses", "service", "services", "svc"), _ENDPOINT),
    **dict.fromkeys(("ev", "event", "events"), "use: reconciler events"),
    **dict.fromkeys(("gitrepositories", "gitrepository", "source", "sources"), _SOURCE),
    **dict.fromkeys(("helmrelease", "helmreleases", "kustomization", "kustomizations"), _GIT),
    **dict.fromkeys(("cj", "cronjob", "cronjobs"), "a job may have a schedule: reconciler get jobs"),
    "groups": "a group is the ranks of one replica: reconciler get ranks",
    **dict.fromkeys(("alerts", "providers", "receivers"), _NOTIFIERS),
    **dict.fromkeys(("incident", "incidents"), "use: reconciler incidents"),
    **dict.fromkeys(("namespace", "namespaces", "ns"), _NO_NAMESPACES),
    **dict.fromkeys(("attempt", "attempts", "run", "runs"), _RUNS),
    "replicas": "the processes of each replica are its ranks: reconciler get ranks",
}

OPTIONS = {
    **dict.fromkeys(("-A", "--all-namespaces", "-n", "--namespace"), _NO_NAMESPACES),
    **dict.fromkeys(("--kubeconfig", "--cluster", "-s", "--server"), _HOME),
    **dict.fromkeys(("logs -n", "logs --lines"), "choose the number of lines with: --tail N"),
    "top --sort-by": "all figures, to sort them: reconciler top -o json",
    "version --client": "the client's version is the first line of: reconciler version",
    "version --short": "it is short already; omit it",
    **dict.fromkeys(("-c", "--container"), "a rank is one process; choose one with: --rank N"),
    "--all-containers": "every rank is shown unless --rank N chooses one",
    "--delete-emptydir-data": "nothing is kept on a node that a drain could lose; omit it",
    **dict.fromkeys(
        ("--disable-eviction", "--grace-period", "--now", "--force"),
        "groups finish their requests before they end; omit it",
    ),
    "--field-selector": "choose by label with -l, or by value with: -o jsonpath='{.items[?(...)]}'",
    "--ignore-daemonsets": "only ranks run on nodes; omit it",
    **dict.fromkeys(("--kustomize", "-k"), "build it first: kustomize build DIR | reconciler apply -f -"),
    "--prune": "objects that are not in the manifests stay; remove them with: reconciler delete KIND/NAME",
    "--record": "every change is a commit; give its reason with: -m MESSAGE",
    **dict.fromkeys(
        ("--server-side", "--force-conflicts"), "objects are always replaced completely; omit it"
    ),
    "--subresource": "the status is part of: reconciler get KIND/NAME -o yaml",
    **dict.fromkeys(("-v", "--verbose"), "see what the controller does with: reconciler events -w"),
    **dict.fromkeys(("--version", "-V"), "use: reconciler version"),
}

ARGUMENTS = {
    "apply": "files are named with -f, such as: reconciler apply -f manifests/",
    "events": "choose an object with: --for KIND/NAME",
    "stop": f"{_STOP}; for one job: reconciler cancel job/NAME",
    "backup": "choose the file with: -o FILE",
    "plan": "see what a change would do with: reconciler apply --dry-run=server -f FILE",
}
"""Hints by the command that takes no arguments."""
