"""Diagnosis from the evidence: detectors recognise classes of faults, and the healing table answers them.

Start with ``rules.py``, the table.
"""
