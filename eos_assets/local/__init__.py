"""Real servers on this machine, on loopback only: Kafka, Spark and Dagster."""
