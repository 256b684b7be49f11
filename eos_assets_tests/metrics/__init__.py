"""The metrics of the exporter."""
