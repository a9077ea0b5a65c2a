"""The commands in groups, with their summaries: help that is fast because it loads no command's module."""

from __future__ import annotations

GROUPS = {
    "Run a cluster": {
        "quickstart": ("cluster.quickstart", "Serve a small model on this machine, to try everything."),
        "up": ("cluster.up", "Run the controller, the gateway and the console here, and keep them running."),
        "init": ("write.manifests", "Create the cluster repository, and print the address to push to."),
        "stop": ("cluster.stop", "Stop all ranks of the cluster, for maintenance or a move."),
        "start": ("cluster.stop", "Serve again after `reconciler stop`."),
        "backup": (
            "cluster.backup",
            "Write the cluster repository, the store and the settings of its remote into one file.",
        ),
        "restore": (
            "cluster.backup",
            "Restore the cluster repository, the store and the settings of its remote from a backup.",
        ),
        "install": ("installed.install", "Run the cluster as a service of this machine, from every boot on."),
        "uninstall": (
            "installed.install",
            "Stop everything, and remove the service and the versions that `install` has made.",
        ),
        "upgrade": (
            "installed.upgrade",
            "Make the service run another version, by default this command's.",
        ),
        "rollback": (
            "installed.upgrade",
            "Return the service to the version before the last `upgrade`, with that version's store.",
        ),
        "sandbox": ("cluster.sandbox", "Emulate Macs on this machine, and rehearse faults on them."),
    },
    "View the cluster": {
        "get": ("read.get", "List objects and their state."),
        "describe": ("read.describe", "Show objects in detail, with their events and incidents."),
        "trace": ("read.trace", "Follow an object from its commit to the processes that serve it."),
        "history": (
            "read.history",
            "List the commits of manifests and operations, newest first, with the state of each.",
        ),
        "top": ("read.top", "Show the memory, processors and tokens per second of nodes or ranks."),
        "logs": ("logs.logs", "Print the output of a deployment's or a job's ranks, sorted by time."),
        "artifacts": ("read.artifacts", "List, copy or print the artifacts of a run."),
        "chat": ("cluster.chat", "Ask a model that is served, once or in a conversation."),
        "console": ("cluster.console", "Print the URL of the console, which shows the cluster in a browser."),
        "events": ("read.events", "List events, oldest first."),
        "wait": ("read.wait", "Wait until objects meet a condition."),
    },
    "Find faults": {
        "incidents": ("read.incidents", "List incidents and how they were healed, oldest first."),
        "doctor": (
            "machines.doctor",
            "Show what is wrong with machines and groups, what it means, and what to do.",
        ),
        "support": ("support.support", "Collect the cluster's state and logs in one file, without secrets."),
        "verify": (
            "machines.verify",
            "Test every group of a deployment, and find the machine or link that makes one slow.",
        ),
    },
    "Change the manifests": {
        "apply": ("write.manifests", "Commit manifests to the cluster repository."),
        "diff": ("write.manifests", "Show what an apply would change."),
        "validate": ("write.validate", "Check manifests without changing anything."),
        "plan": (
            "read.plan",
            "Show what the controller would do now, what it waits for, and what it refuses.",
        ),
        "facts": ("read.facts", "Record a cluster's facts in a file, to plan changes elsewhere."),
        "rehearse": (
            "ci.rehearse",
            "Try a change of manifests on emulated Macs, break something, and show what happened.",
        ),
        "ci": ("ci.workflow", "Review changes of a cluster repository in the pull requests of a forge."),
        "approve": (
            "write.approve",
            "Apply a revision that is held because it would remove much, or run a job.",
        ),
        "edit": ("write.edit", "Change an object in an editor."),
        "patch": ("write.patch", "Change fields of an object, by a commit that changes nothing else."),
        "label": ("write.label", "Set or remove labels of objects, by a commit that changes nothing else."),
        "annotate": (
            "write.label",
            "Set or remove annotations of objects, by a commit that changes nothing else.",
        ),
        "scale": ("write.scale", "Set the number of replicas of deployments."),
        "cancel": (
            "write.job_runs",
            "End the runs of jobs that have not ended, by an operation.",
        ),
        "restart": ("write.job_runs", "Run jobs again, by an operation that sets spec.restartedAt."),
        "rollout": ("write.rollout", "Follow a change of a deployment, restart it, or undo it."),
        "suspend": ("write.suspend", "Keep changes of manifests out, until `reconciler resume`."),
        "resume": ("write.suspend", "Let changes of manifests in again, after `reconciler suspend`."),
        "undo": ("write.suspend", "End operations, by a commit that removes them."),
        "override": (
            "write.suspend",
            "Let in what a sync window holds, for an hour or as long as --for says.",
        ),
        "delete": ("write.delete", "Delete objects by a commit that removes their manifests."),
        "model": ("write.model", "Verify the weights of a Model, or update it to another revision."),
        "key": ("write.key", "Make, rotate and revoke keys of clients."),
        "source": ("write.source", "Take the manifests from a remote git repository."),
    },
    "Machines": {
        "node": (
            "machines.node",
            "Examine and add machines, install or remove the service of their agents, and protect them.",
        ),
        "fabric": ("write.fabric", "Write manifests of the existing cabling."),
        "cordon": ("machines.drain", "Place no new ranks on nodes."),
        "uncordon": ("machines.drain", "Use cordoned or drained nodes again."),
        "drain": ("machines.drain", "Move all ranks off nodes, before a repair, an update or a reboot."),
        "reboot": ("machines.reboot", "Restart machines, one after the other, in the order of their names."),
    },
    "Words and settings": {
        "explain": ("read.explain", "Explain a kind or a field."),
        "api-resources": ("read.explain", "List the kinds and their short names."),
        "api-versions": ("read.explain", "List the supported versions of manifests."),
        "context": ("shell.context", "Name clusters, and choose the one that commands are for."),
        "schema": ("shell.schema", "Print the JSON Schema of a kind, or write all of them for an editor."),
        "completion": (
            "shell.help",
            "Print a shell script that completes commands, options, kinds and names.",
        ),
        "help": ("shell.help", "Show what a command does, or list the commands."),
        "version": ("read.plan", "Print the versions of this command and of the running controller."),
    },
}
"""Module and summary of each command, by group, in the order of help and of the reference. The module is one of
``cli/commands``, loaded on use so that commands start quickly."""
