"""Benchmarks: this project beside others on one broker. `python -m benchmarks` runs them, see docs/performance.md."""
