"""The contenders: what each is called, and how it is started."""

import sys
from collections.abc import Sequence

from benchmarks.peers import client_settings as client
from benchmarks.peers.java import java_command
from benchmarks.peers.process import PeerProcess
from benchmarks.peers.quix_environment import quix_python
from benchmarks.spark import EosContender, SharedSpark, SparkSink
from benchmarks.trial import Contender, Description
from eos_assets.declare.modes import Mode
from eos_assets.errors import EosError
from eos_assets.kafka.connection import Connection
from eos_assets.platform.settings import Settings

ARROW, DATAFRAME = "eos-arrow", "eos-dataframe"
ARROW_BASELINE, DATAFRAME_BASELINE = "eos-arrow-at-least-once", "eos-dataframe-at-least-once"
SPARK, FLINK, STREAMS, LOOP, QUIX = "spark-sink", "flink", "kafka-streams", "python-loop", "quix"

DESCRIPTIONS = {
    ARROW: Description("eos, Arrow kind, exactly once", True),
    DATAFRAME: Description("eos, DataFrame kind, exactly once", True),
    ARROW_BASELINE: Description("eos, Arrow kind, at least once", False),
    DATAFRAME_BASELINE: Description("eos, DataFrame kind, at least once", False),
    SPARK: Description("Spark's Kafka sink, at least once", False),
    FLINK: Description("Flink, exactly once", True),
    STREAMS: Description("Kafka Streams, exactly once", True),
    LOOP: Description("confluent-kafka loop, exactly once", True, share=0.25),
    QUIX: Description("Quix Streams, exactly once", True, share=0.05),
}
OURS = (ARROW, DATAFRAME, ARROW_BASELINE, DATAFRAME_BASELINE)
EXACTLY_ONCE = tuple(name for name, description in DESCRIPTIONS.items() if description.exactly_once)


class Contenders:
    """The contenders of one benchmark. Each is started when it is first used, and lives until the end."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self.spark = SharedSpark(settings)
        #: Contender → why it does not take part.
        self.left_out: dict[str, str] = {}
        self._settings = settings
        self._connection = connection
        self._started: dict[str, Contender] = {}

    def __getitem__(self, name: str) -> Contender:
        if name not in self._started:
            contender = self._create(name)
            self._started[name] = contender
            contender.start(self._connection)
        return self._started[name]

    def available(self, names: Sequence[str]) -> list[str]:
        """Start these contenders. One that this machine cannot run is left out, with the reason."""
        for name in names:
            if name not in self.left_out:
                try:
                    assert self[name]
                except EosError as error:
                    self.left_out[name] = str(error)
        return [name for name in names if name not in self.left_out]

    def close(self) -> None:
        for contender in self._started.values():
            contender.close()

    def _create(self, name: str) -> Contender:
        settings = self._settings
        if name in OURS:
            kind = "Arrow" if name in (ARROW, ARROW_BASELINE) else "DataFrame"
            return EosContender(self.spark, kind, Mode.EXACTLY_ONCE if name in EXACTLY_ONCE else Mode.AT_LEAST_ONCE)
        if name == SPARK:
            return SparkSink(self.spark)
        streams = {**client.STREAMS, "streams.state.dir": str(settings.home / "peers" / "state")}
        peers = {
            FLINK: (lambda: java_command("flink", "FlinkPeer", settings), client.java_arguments(client.FLINK)),
            STREAMS: (lambda: java_command("streams", "StreamsPeer", settings), client.java_arguments(streams)),
            LOOP: (lambda: [sys.executable, "-m", "benchmarks.peers.transactional_loop"], client.python_arguments()),
            QUIX: (lambda: [str(quix_python(settings)), "-m", "benchmarks.peers.quix"], client.python_arguments()),
        }
        command, arguments = peers[name]
        return PeerProcess(name, command, arguments, settings.home / "peers" / "logs")
