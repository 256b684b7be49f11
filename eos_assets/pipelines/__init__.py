"""What a user writes: the pipelines of this project and the topics they declare."""
