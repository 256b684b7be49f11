"""Records from Kafka through Spark back to Kafka, exactly once, with the proof in every partition."""
