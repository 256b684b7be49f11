"""The settings of this process, and the Spark and Kafka that they name."""
