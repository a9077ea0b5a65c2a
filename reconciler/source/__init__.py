"""Manifests to typed documents: YAML with line numbers, git, a watched directory.

The only room with PyYAML, watchfiles and git. ``documents`` reads, ``editing`` writes without reformatting,
``git`` keeps the cluster repo, ``hook`` guards it, ``sources`` is what the controller's loop reads. This
module itself imports nothing, so that the hook, which runs at every push, loads no more than it needs.
"""
