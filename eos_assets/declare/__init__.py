"""What a user declares: pipelines, topics, checks."""
