"""Hints for people who know kubectl or Flux: the command here, or why there is none."""

from __future__ import annotations

_EDIT = "change the manifest: reconciler edit KIND/NAME, or a push"
_APPLY = "use: reconciler apply -f FILE"
_STATE = "use: reconciler get all"
_STOP = "Ctrl-C in the terminal of `reconciler up` stops every rank; for one deployment: reconciler delete"
_LOGS = "ranks take no commands; see their output with: reconciler logs DEPLOYMENT"
_GIT = "a push to the cluster repository takes effect at once; see what is happening with: reconciler plan"
_REMOTE = f"look at a remote repository now: reconciler source sync; {_GIT}"
_SOURCE = "a remote repository: reconciler source show"
_NO_PLUGINS = "there are no plugins and no settings of your own; see: reconciler help"
_NO_ROLES = (
    "whoever can open the controller's socket may do everything; clients have keys: reconciler get apikeys"
)
_NO_NAMESPACES = "there are no namespaces; omit it"
_HOME = "a cluster is a state folder, here or elsewhere: reconciler --home PATH, or reconciler --context NAME"

COMMANDS = {
    "alpha": _NO_PLUGINS,
    "attach": _LOGS,
    "auth": _NO_ROLES,
    "autoscale": "groups grow where there is room (spec.growth); the number of replicas: reconciler scale",
    "bootstrap": "use: reconciler source set URL, and reconciler ci init for pull requests",
    "certificate": _NO_ROLES,
    "check": "use: reconciler doctor",
    "cluster-info": "use: reconciler get gateways",
    "cp": _LOGS,
    "create": _APPLY,
    "debug": _LOGS,
    "down": _STOP,
    "exec": _LOGS,
    "export": "use: reconciler get KIND/NAME -o yaml",
    "expose": "every deployment is served by the gateway: reconciler get gateways",
    "health": _STATE,
    "kill": _STOP,
    "kuberc": _NO_PLUGINS,
    "kustomize": "render first: kustomize build DIR | reconciler apply -f -",
    "list": "use: reconciler get KIND, such as: reconciler get models; the kinds: reconciler api-resources",
    "ls": _STATE,
    "options": "use: reconciler --help",
    "plugin": _NO_PLUGINS,
    "port-forward": "the gateway listens on this machine: reconciler get gateways",
    "proxy": "the gateway listens on this machine: reconciler get gateways",
    "ps": "use: reconciler get ranks",
    "reconcile": _REMOTE,
    "replace": _APPLY,
    "restart": "use: reconciler rollout restart deployment/NAME",
    "rm": "use: reconciler delete KIND/NAME",
    "run": "a deployment is a manifest; an example is in manifests/: reconciler apply -f FILE",
    "serve": "use: reconciler up",
    "set": "use: reconciler patch KIND/NAME -p PATCH, or reconciler edit KIND/NAME",
    "stats": _STATE,
    "status": _STATE,
    "taint": "taints are in the manifest of a Node: reconciler edit node/NAME, then spec.taints",
    "watch": "use: reconciler get KIND -w",
    "config view": "use: reconciler context list",
    "config set-context": "use: reconciler context add NAME WHERE",
    "config set-cluster": "use: reconciler context add NAME WHERE",
    "config delete-context": "use: reconciler context remove NAME",
    "key list": "use: reconciler get apikeys",
    "key delete": "use: reconciler delete apikey/NAME; to end a key and tell its clients why: reconciler key revoke NAME",
}
"""Hints by the words after `reconciler`."""

_RANKS = "processes are called ranks: reconciler get ranks"
_DEPLOYMENTS = "a served model is a deployment: reconciler get deployments"
_NOTIFIERS = "messages about incidents go to notifiers: reconciler get notifiers"
_FABRICS = "cables are declared in a fabric: reconciler get fabrics"
_ENDPOINT = "the endpoint is a gateway: reconciler get gateways"

KINDS = {
    "agents": "an agent belongs to its node: reconciler get nodes",
    "cables": _FABRICS,
    "containers": _RANKS,
    "daemonsets": _DEPLOYMENTS,
    "endpoints": _ENDPOINT,
    "ev": "use: reconciler events",
    "event": "use: reconciler events",
    "events": "use: reconciler events",
    "gitrepositories": _SOURCE,
    "gitrepository": _SOURCE,
    "helmrelease": _GIT,
    "helmreleases": _GIT,
    "groups": "a group is the ranks of one replica: reconciler get ranks",
    "alerts": _NOTIFIERS,
    "incident": "use: reconciler incidents",
    "incidents": "use: reconciler incidents",
    "ing": _ENDPOINT,
    "ingress": _ENDPOINT,
    "ingresses": _ENDPOINT,
    "jobs": _DEPLOYMENTS,
    "links": _FABRICS,
    "kustomization": _GIT,
    "kustomizations": _GIT,
    "namespace": _NO_NAMESPACES,
    "namespaces": _NO_NAMESPACES,
    "ns": _NO_NAMESPACES,
    "po": _RANKS,
    "pod": _RANKS,
    "pods": _RANKS,
    "processes": _RANKS,
    "providers": _NOTIFIERS,
    "receivers": _NOTIFIERS,
    "replicas": "the processes of each replica are its ranks: reconciler get ranks",
    "replicasets": _DEPLOYMENTS,
    "rs": _DEPLOYMENTS,
    "service": _ENDPOINT,
    "services": _ENDPOINT,
    "source": _SOURCE,
    "sources": _SOURCE,
    "statefulsets": _DEPLOYMENTS,
    "sts": _DEPLOYMENTS,
    "svc": _ENDPOINT,
}

OPTIONS = {
    "-A": _NO_NAMESPACES,
    "--all-namespaces": _NO_NAMESPACES,
    "-n": _NO_NAMESPACES,
    "--namespace": _NO_NAMESPACES,
    "--kubeconfig": _HOME,
    "--cluster": _HOME,
    "-s": _HOME,
    "--server": _HOME,
    "logs -n": "choose the number of lines with: --tail N",
    "logs --lines": "choose the number of lines with: --tail N",
    "top --sort-by": "all figures, to sort them: reconciler top -o json",
    "version --client": "the client's version is the first line of: reconciler version",
    "version --short": "it is short already; omit it",
    "-c": "a rank is one process; choose one with: --rank N",
    "--container": "a rank is one process; choose one with: --rank N",
    "--all-containers": "every rank is shown unless --rank N chooses one",
    "--delete-emptydir-data": "nothing is kept on a node that a drain could lose; omit it",
    "--disable-eviction": "groups finish their requests before they end; omit it",
    "--field-selector": "choose by label with -l, or by value with: -o jsonpath='{.items[?(...)]}'",
    "--grace-period": "groups finish their requests before they end; omit it",
    "--ignore-daemonsets": "only ranks run on nodes; omit it",
    "--kustomize": "build it first: kustomize build DIR | reconciler apply -f -",
    "-k": "build it first: kustomize build DIR | reconciler apply -f -",
    "--now": "groups finish their requests before they end; omit it",
    "--prune": "objects that are not in the manifests stay; remove them with: reconciler delete",
    "--record": "every change is a commit; give its reason with: -m MESSAGE",
    "--server-side": "objects are always replaced completely; omit it",
    "--force": "groups finish their requests before they end; omit it",
    "--force-conflicts": "objects are always replaced completely; omit it",
    "--subresource": "the status is part of: reconciler get KIND/NAME -o yaml",
    "-v": "see what the controller does with: reconciler events -w",
    "--verbose": "see what the controller does with: reconciler events -w",
    "--version": "use: reconciler version",
    "-V": "use: reconciler version",
}

ARGUMENTS = {
    "apply": "files are named with -f, such as: reconciler apply -f manifests/",
    "events": "choose an object with: --for KIND/NAME",
    "backup": "choose the file with: -o FILE",
    "plan": "see what a change would do with: reconciler apply --dry-run=server -f FILE",
}
"""Hints by the command that takes no arguments."""
