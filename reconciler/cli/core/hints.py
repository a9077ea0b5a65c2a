"""What people type who know kubectl or Flux: what it is called here, or why there is no such thing."""

from __future__ import annotations

_EDIT = "change the manifest: reconciler edit KIND/NAME, or a push"
_APPLY = "here that is: reconciler apply -f FILE"
_STATE = "here that is: reconciler get all"
_STOP = "Ctrl-C in the terminal of `reconciler up` stops every rank; for one deployment: reconciler delete"
_LOGS = "ranks take no commands; what they print shows: reconciler logs DEPLOYMENT"
_GIT = "a push to the cluster repository is acted on at once; what is going on shows: reconciler plan"
_NO_NAMESPACES = "there are no namespaces; leave it out"
_HOME = "a cluster is its state folder: reconciler --home PATH, or RECONCILER_HOME"

COMMANDS = {
    "annotate": _EDIT,
    "attach": _LOGS,
    "cluster-info": "here that is: reconciler get gateways",
    "config": _HOME,
    "cp": _LOGS,
    "create": _APPLY,
    "debug": _LOGS,
    "down": _STOP,
    "exec": _LOGS,
    "export": "here that is: reconciler get KIND/NAME -o yaml",
    "expose": "every deployment is served by the gateway: reconciler get gateways",
    "health": _STATE,
    "help": "here that is: reconciler --help, or reconciler COMMAND --help",
    "install": "here that is: reconciler up",
    "kill": _STOP,
    "label": _EDIT,
    "list": _STATE,
    "ls": _STATE,
    "options": "here that is: reconciler --help",
    "patch": _EDIT,
    "port-forward": "the gateway listens on this machine: reconciler get gateways",
    "proxy": "the gateway listens on this machine: reconciler get gateways",
    "ps": "here that is: reconciler get ranks",
    "reconcile": _GIT,
    "replace": _APPLY,
    "restart": "here that is: reconciler rollout restart deployment/NAME",
    "resume": _GIT,
    "rm": "here that is: reconciler delete KIND/NAME",
    "rollback": "here that is: reconciler rollout undo KIND/NAME",
    "run": "a deployment is a manifest; an example is in manifests/: reconciler apply -f FILE",
    "serve": "here that is: reconciler up",
    "set": _EDIT,
    "status": _STATE,
    "suspend": "the whole cluster rests with: reconciler stop; one deployment with: reconciler scale --replicas=0",
    "taint": "taints are in the manifest of a Node: reconciler edit node/NAME, then spec.taints",
    "trace": _GIT,
    "undo": "here that is: reconciler rollout undo KIND/NAME",
    "watch": "here that is: reconciler get KIND -w",
    "rollout pause": "there is no pause: a change is a commit; it goes back with: reconciler rollout undo",
    "rollout resume": "there is no pause: a change is a commit; it goes back with: reconciler rollout undo",
}
"""By the words after `reconciler`."""

_RANKS = "processes are ranks here: reconciler get ranks"
_DEPLOYMENTS = "what is served is a deployment: reconciler get deployments"
_NOTIFIERS = "who is told of incidents is a notifier: reconciler get notifiers"
_FABRICS = "which cables are meant to be there says a fabric: reconciler get fabrics"
_ENDPOINT = "the endpoint is a gateway: reconciler get gateways"

KINDS = {
    "agents": "an agent belongs to its node: reconciler get nodes",
    "cables": _FABRICS,
    "containers": _RANKS,
    "daemonsets": _DEPLOYMENTS,
    "endpoints": _ENDPOINT,
    "ev": "here that is: reconciler events",
    "event": "here that is: reconciler events",
    "events": "here that is: reconciler events",
    "gitrepositories": _GIT,
    "groups": "a group is the ranks of one replica: reconciler get ranks",
    "alerts": _NOTIFIERS,
    "incident": "here that is: reconciler incidents",
    "incidents": "here that is: reconciler incidents",
    "ing": _ENDPOINT,
    "ingress": _ENDPOINT,
    "ingresses": _ENDPOINT,
    "jobs": _DEPLOYMENTS,
    "links": _FABRICS,
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
    "--context": _HOME,
    "--cluster": _HOME,
    "-s": _HOME,
    "--server": _HOME,
    "-c": "a rank is one process; choose one with: --rank N",
    "--container": "a rank is one process; choose one with: --rank N",
    "--all-containers": "every rank is shown unless --rank N chooses one",
    "--delete-emptydir-data": "nothing is kept on a node that a drain could lose; leave it out",
    "--disable-eviction": "groups finish what they have before they end; leave it out",
    "--field-selector": "choose by label with -l, or by value with: -o jsonpath='{.items[?(...)]}'",
    "--grace-period": "groups finish what they have before they end; leave it out",
    "--ignore-daemonsets": "only ranks run on nodes; leave it out",
    "--kustomize": "build it first: kustomize build DIR | reconciler apply -f -",
    "-k": "build it first: kustomize build DIR | reconciler apply -f -",
    "--now": "groups finish what they have before they end; leave it out",
    "--prune": "what is not in the manifests stays; take it away with: reconciler delete",
    "--record": "every change is a commit; its reason goes into: -m MESSAGE",
    "--server-side": "objects are replaced as a whole; leave it out",
    "--force": "groups finish what they have before they end; leave it out",
    "--force-conflicts": "objects are replaced as a whole; leave it out",
    "--subresource": "the status is part of: reconciler get KIND/NAME -o yaml",
    "-v": "what the controller does shows: reconciler events -w",
    "--verbose": "what the controller does shows: reconciler events -w",
    "--version": "here that is: reconciler version",
    "-V": "here that is: reconciler version",
}

ARGUMENTS = {
    "events": "choose an object with: --for KIND/NAME",
    "backup": "choose the file with: -o FILE",
    "plan": "what a change would do shows: reconciler apply --dry-run=server -f FILE",
}
"""By the command that takes no such words."""
