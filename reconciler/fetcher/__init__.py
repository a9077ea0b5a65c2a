"""The process that fetches weights onto a node, started by its agent as ``python -m reconciler.fetcher``.

The only room with huggingface_hub, in the Python of the runtime; of the rest of the house it knows ``wire`` alone.
It may be killed at any moment: the next one goes on where it was.

=================  ====================================================================
module             purpose
=================  ====================================================================
``fetch``          completes and verifies the weights in a folder, from any state
``folder``         the folder of the weights, with its record
``weight_header``  the header of a weight file that this node does not need
``hub``            the repository: the wanted files, and their bytes
``peer``           the same from another node, and the other side of that
``giving``         a program of its own: gives verified weights to other nodes
``problems``       why there are no weights, as an exception
``progress``       progress on standard output
=================  ====================================================================
"""
