"""A real Kafka and a real Spark on this machine, started and ended by us, on loopback only."""
