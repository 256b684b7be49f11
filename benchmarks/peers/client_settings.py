"""The settings of Kafka's clients in the peers, the same for each as far as its client has them.

`linger.ms`, `batch.size` and the fetch sizes are what made each client the fastest. This project uses its own
defaults, which are similar: `eos_assets.kafka.producer` and `eos_assets.kafka.range_reader`.
"""

COMPRESSION = "lz4"

PRODUCER = {"acks": "all", "compression.type": COMPRESSION, "linger.ms": "5", "batch.size": "1000000"}
READER = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}

JAVA_PRODUCER = {**PRODUCER, "buffer.memory": str(64 << 20)}
JAVA_CONSUMER = {
    **READER,
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(8 << 20),
    "fetch.max.bytes": str(64 << 20),
    "fetch.max.wait.ms": "10",
}

PYTHON_PRODUCER = {
    **PRODUCER,
    "partitioner": "murmur2_random",
    "batch.num.messages": "100000",
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": str(64 << 10),
}
PYTHON_FETCHES = {
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "1",
    "max.partition.fetch.bytes": "500000",
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": str(16 << 10),
}
PYTHON_CONSUMER = {**READER, **PYTHON_FETCHES}

#: How often a peer commits, as far as it commits by time.
COMMIT_MS = 1000

FLINK = {"flink.parallelism": "2", "flink.checkpoint.ms": str(COMMIT_MS), "producer.transaction.timeout.ms": "60000"}
STREAMS = {
    "streams.processing.guarantee": "exactly_once_v2",
    "streams.commit.interval.ms": str(COMMIT_MS),
    "streams.num.stream.threads": "2",
    "streams.buffered.records.per.partition": "10000",
}
PYTHON = {"commit.ms": str(COMMIT_MS)}


def java_arguments(own: dict[str, str]) -> dict[str, str]:
    return {**prefixed("producer.", JAVA_PRODUCER), **prefixed("consumer.", JAVA_CONSUMER), **own}


def python_arguments() -> dict[str, str]:
    return {**prefixed("producer.", PYTHON_PRODUCER), **prefixed("consumer.", PYTHON_CONSUMER), **PYTHON}


def prefixed(prefix: str, settings: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in settings.items()}
