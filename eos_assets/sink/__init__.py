"""The transactional sink, which runs in the Spark tasks: from rows to committed transactions."""
