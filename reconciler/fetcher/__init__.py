"""The process that fetches weights onto a node, started by its agent as ``python -m reconciler.fetcher``.

The only room with huggingface_hub, in the Python of the runtime. Of the other rooms it imports only ``wire``.
It may be killed at any moment: the next fetcher continues where it was.

=================  ====================================================================
module             purpose
=================  ====================================================================
``fetch``          completes and verifies the weights in a folder, from any state
``folder``         the folder of the weights, with its record
``weight_header``  the header of a weight file that this node does not need
``hub``            the repository: the wanted files, and their bytes
``peer``           the same from another node, and the giving side of that
``giving``         a separate program, which gives verified weights to other nodes
``problems``       the reason why there are no weights, as an exception
``progress``       progress on standard output
=================  ====================================================================
"""
