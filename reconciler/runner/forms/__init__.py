"""Answers that must have a form: from the request to the tokens that may come next.

``schemas`` checks JSON Schemas. ``answers`` writes the grammar of a whole answer as the model's family writes it.
``matching`` finds the tokens that may follow the answer so far. Only ``matching`` and ``patterns`` use llguidance;
the others are pure.
"""
