"""The questions that a run asks before it writes anything: one file each, and `preflight.py` with their order."""
