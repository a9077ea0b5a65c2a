"""The review of a change, from the command line."""
