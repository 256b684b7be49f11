"""The experiment: three deliveries under the same failures, and a plain account of what each lost, doubled and cost."""
