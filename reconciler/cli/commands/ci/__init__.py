"""Commands for the review of a change: its rehearsal on emulated Macs, and a forge's workflow that runs it."""
