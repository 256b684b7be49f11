"""The experiment: three deliveries under the same failures, and what each of them lost, doubled and cost."""
