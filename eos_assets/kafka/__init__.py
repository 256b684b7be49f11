"""Kafka in the project's words: connection, topics, routing, and the idempotent producer that fills a topic."""
