"""Kafka clients: connection, topics, offsets, reading, partitioning and producing."""
