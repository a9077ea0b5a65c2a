"""The commands in groups, with their summaries: help that is fast because it loads no command's module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

GROUPS = {
    "Run a cluster": {
        "quickstart": "Serve a small model on this machine, to try everything.",
        "up": "Run the controller, the gateway and the console here, and keep them running.",
        "init": "Create the cluster repository, and print the address to push to.",
        "stop": "Stop all ranks of the cluster, for maintenance or a move.",
        "start": "Serve again after `reconciler stop`.",
        "backup": "Write the cluster repository, the store and the settings of its remote into one file.",
        "restore": "Restore the cluster repository, the store and the settings of its remote from a backup.",
        "install": "Run the cluster as a service of this machine, from every boot on.",
        "uninstall": "Stop everything, and remove the service and the versions that `install` has made.",
        "upgrade": "Make the service run another version, by default this command's.",
        "rollback": "Return the service to the version before the last `upgrade`, with that version's store.",
        "sandbox": "Emulate Macs on this machine, and rehearse faults on them.",
    },
    "View the cluster": {
        "get": "List objects and their state.",
        "describe": "Show objects in detail, with their events and incidents.",
        "trace": "Follow an object from its commit to the processes that serve it.",
        "history": "List the commits of manifests and operations, newest first, with the state of each.",
        "top": "Show the memory, processors and tokens per second of nodes or ranks.",
        "logs": "Print the output of a deployment's ranks, sorted by time.",
        "chat": "Ask a model that is served, once or in a conversation.",
        "console": "Print the URL of the console, which shows the cluster in a browser.",
        "events": "List events, oldest first.",
        "wait": "Wait until objects meet a condition.",
    },
    "Find faults": {
        "incidents": "List incidents and how they were healed, oldest first.",
        "doctor": "Show what is wrong with machines and groups, what it means, and what to do.",
        "support": "Collect the cluster's state and logs in one file, without secrets.",
        "verify": "Test every group of a deployment, and find the machine or link that makes one slow.",
    },
    "Change the manifests": {
        "apply": "Commit manifests to the cluster repository.",
        "diff": "Show what an apply would change.",
        "validate": "Check manifests without changing anything.",
        "plan": "Show what the controller would do now, what it waits for, and what it refuses.",
        "facts": "Record a cluster's facts in a file, to plan changes elsewhere.",
        "rehearse": "Try a change of manifests on emulated Macs, break something, and show what happened.",
        "ci": "Review changes of a cluster repository in the pull requests of a forge.",
        "approve": "Apply a revision that is held because it would remove much.",
        "edit": "Change an object in an editor.",
        "patch": "Change fields of an object, by a commit that changes nothing else.",
        "label": "Set or remove labels of objects, by a commit that changes nothing else.",
        "annotate": "Set or remove annotations of objects, by a commit that changes nothing else.",
        "scale": "Set the number of replicas of deployments.",
        "rollout": "Follow a change of a deployment, restart it, or undo it.",
        "suspend": "Keep changes of manifests out, until `reconciler resume`.",
        "resume": "Let changes of manifests in again, after `reconciler suspend`.",
        "undo": "End operations, by a commit that removes them.",
        "override": "Let in what a sync window holds, for an hour or as long as --for says.",
        "delete": "Delete objects by a commit that removes their manifests.",
        "model": "Verify the weights of a Model, or update it to another revision.",
        "key": "Make, rotate and revoke keys of clients.",
        "source": "Take the manifests from a remote git repository.",
    },
    "Machines": {
        "node": "Examine and add machines, install or remove the service of their agents, and protect them.",
        "fabric": "Write manifests of the existing cabling.",
        "cordon": "Place no new ranks on nodes.",
        "uncordon": "Use cordoned or drained nodes again.",
        "drain": "Move all ranks off nodes, before a repair, an update or a reboot.",
        "reboot": "Restart machines, one after the other, in the order of their names.",
    },
    "Words and settings": {
        "explain": "Explain a kind or a field.",
        "api-resources": "List the kinds and their short names.",
        "api-versions": "List the supported versions of manifests.",
        "context": "Name clusters, and choose the one that commands are for.",
        "schema": "Print the JSON Schema of a kind, or write all of them for an editor.",
        "completion": "Print a shell script that completes commands, options, kinds and names.",
        "help": "Show what a command does, or list the commands.",
        "version": "Print the versions of this command and of the running controller.",
    },
}
"""Summaries by command by group, in the order of help and of the reference."""
OTHERS = "Further commands"


def grouped(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each group with its commands in ``names``; commands without a group come last."""
    for title, commands in GROUPS.items():
        if found := [name for name in commands if name in names]:
            yield title, found
    if left := [name for name in names if summary(name) is None]:
        yield OTHERS, left


def summary(name: str) -> str | None:
    """Return the summary of a command; None for one without a group."""
    return next((commands[name] for commands in GROUPS.values() if name in commands), None)
