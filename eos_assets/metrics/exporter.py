"""Answers Prometheus: each scrape reads what is new, and none waits longer than Prometheus does."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from eos_assets.metrics.families import families, up
from eos_assets.metrics.reader import PipelineState

logger = logging.getLogger(__name__)

#: Less than the ten seconds for which Prometheus waits by default.
SCRAPE_SECONDS = 5.0

Read = Callable[[], Sequence[PipelineState]]


class PipelineCollector(Collector):
    """Collects the metrics of pipelines.

    One thread reads at a time. A scrape that it does not serve in time answers without it, and the next scrape waits
    for the same reading: scrapes do not pile up while the brokers are away.
    """

    def __init__(self, read: Read, seconds: float = SCRAPE_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._reading: Future[Sequence[PipelineState]] | None = None

    def collect(self) -> Iterator[Metric]:
        states = self.states()
        yield up(states is not None)
        if states is not None:
            yield from families(states)

    def states(self) -> Sequence[PipelineState] | None:
        """The present state of the pipelines; None if it cannot be read in time."""
        try:
            states = self._start().result(self._seconds)
        except NotInTime:
            logger.warning("The brokers did not answer within %g s.", self._seconds)
        except Exception as error:  # the exporter goes on: it has to answer when the brokers are back
            logger.warning("The pipelines could not be read: %s", error)
        else:
            for state in states:
                if state.problem:
                    logger.warning(
                        "Pipeline %s: %s", state.pipeline.name, state.problem, extra={"pipeline": state.pipeline.name}
                    )
            return states
        return None

    def _start(self) -> "Future[Sequence[PipelineState]]":
        """The reading that is under way, or else a new one."""
        with self._lock:
            if self._reading is None or self._reading.done():
                self._reading = Future()
                threading.Thread(target=self._fulfil, args=(self._reading,), daemon=True).start()
            return self._reading

    def _fulfil(self, reading: "Future[Sequence[PipelineState]]") -> None:
        try:
            reading.set_result(self._read())
        except Exception as error:
            reading.set_exception(error)


def registry_of(read: Read, seconds: float = SCRAPE_SECONDS) -> CollectorRegistry:
    """A registry with the metrics of the pipelines and no others."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(PipelineCollector(read, seconds))
    return registry


def serve(registry: CollectorRegistry, host: str, port: int) -> WSGIServer:
    """Serve the metrics in a thread. The result ends it with `shutdown()`."""
    server, _ = start_http_server(port, host, registry)
    return server
