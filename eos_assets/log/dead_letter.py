"""The headers that a dead letter has beside those of its source record."""

#: A longer reason would not fit beside a large record.
REASON_CHARACTERS = 4_000
