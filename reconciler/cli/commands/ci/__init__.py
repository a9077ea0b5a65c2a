"""Commands for the review of a change: rehearse it on emulated Macs, and the workflow of a forge that does so."""
