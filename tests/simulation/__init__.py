"""The product in a world without machines: its own code on virtual time, where only processes, clocks and wires
are replaced, and where each of its effects can be made to fail at will.
"""
