"""Dagster: the assets, checks, jobs and sensors of the declared pipelines."""
