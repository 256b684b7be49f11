"""Metrics for Prometheus, from nothing but the brokers: a run that crashed is seen, too."""
