"""Answers that have to have a form: from what a request asks for to the tokens that may come next.

``schemas`` checks JSON Schemas, ``answers`` writes a grammar of a whole answer as the model's family writes one, and ``matching``
says of an answer so far which tokens may follow. Only ``matching`` and ``patterns`` use llguidance; the others are pure.
"""
