"""The state of stateful pipelines: fold, changelog, snapshots."""
