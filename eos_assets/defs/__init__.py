"""The definitions that Dagster loads. Their factories are in `eos_assets.orchestration`."""
