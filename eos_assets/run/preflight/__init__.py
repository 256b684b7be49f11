"""The questions that a run asks before it writes anything: a file for each, and `preflight.py` asks them in order."""
