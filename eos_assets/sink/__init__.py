"""In the worker: the records of one source partition, written in transactions."""
