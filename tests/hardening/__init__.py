"""The least rights of a machine: what sudo should allow there, and who may connect to it."""
