"""Dagster: assets, checks, jobs, sensors."""
