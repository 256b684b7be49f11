"""`eos exporter`: the metrics of the pipelines for Prometheus."""

import json
import signal
from collections.abc import Iterator
from types import FrameType

import click
from prometheus_client import CollectorRegistry, generate_latest

from eos_assets.cli.log_output import log_messages, stderr_console
from eos_assets.cli.options import json_option, module_option
from eos_assets.declare.registry import choose_pipelines
from eos_assets.errors import EosError
from eos_assets.local.exporter_server import EXPORTER_PURPOSE, EXPORTER_SETTING
from eos_assets.local.ports import require_free
from eos_assets.metrics.exporter import registry_of, serve
from eos_assets.metrics.reader import ClusterReader
from eos_assets.platform.cluster import connect
from eos_assets.platform.loopback import LOOPBACK, LOOPBACK_HOSTS
from eos_assets.platform.settings import Settings


@click.command("exporter")
@click.option("--pipeline", "names", multiple=True, help="Only this pipeline; repeatable. Default: all.")
@click.option("--host", default=LOOPBACK, show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port to listen on. Default: EOS_EXPORTER_PORT.")
@click.option("--once", is_flag=True, help="Print the metrics and end.")
@json_option
@module_option
def exporter_command(names: tuple[str, ...], host: str, port: int | None, once: bool, as_json: bool) -> None:
    """Serve the metrics of the pipelines to Prometheus, until it is stopped.

    It reads the brokers only: ledgers, dead letters, offsets and the last proofs. So it also shows what a run left that
    crashed. It starts no Spark and writes nothing.
    """
    if as_json and not once:
        raise EosError("--json prints one reading, and without --once there are many.", "Add --once.")
    settings = Settings.load()
    pipelines = choose_pipelines(names, settings.modules)
    reader = ClusterReader(pipelines, connect(settings))
    if once:
        states = reader.read()  # a long ledger takes longer than a scrape may
        print_once(registry_of(lambda: states), as_json=as_json)
        return
    port = port or settings.exporter_port
    if host in LOOPBACK_HOSTS:
        require_free(port, EXPORTER_PURPOSE, EXPORTER_SETTING)
    signal.signal(signal.SIGTERM, interrupt)
    with log_messages(stderr_console()):
        serve_until_stopped(reader, host, port)


def serve_until_stopped(reader: ClusterReader, host: str, port: int) -> None:
    try:
        server = serve(registry_of(reader.read), host, port)
    except OSError as error:
        raise EosError(
            f"The exporter cannot listen on {host}:{port}: {error.strerror}.", f"Use another {EXPORTER_SETTING}."
        ) from error
    names = ", ".join(one.pipeline.name for one in reader.readers)
    stderr_console().print(f"http://{host}:{port}/metrics shows {names}.", soft_wrap=True, markup=False)
    try:
        signal.pause()
    except KeyboardInterrupt:
        server.shutdown()


def print_once(registry: CollectorRegistry, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(list(samples(registry)), indent=2))
    else:
        click.echo(generate_latest(registry).decode(), nl=False)


def samples(registry: CollectorRegistry) -> Iterator[dict[str, object]]:
    for metric in registry.collect():
        for sample in metric.samples:
            yield {"name": sample.name, "labels": sample.labels, "value": sample.value}


def interrupt(signum: int, frame: FrameType | None) -> None:
    """Handle a termination like Ctrl-C."""
    raise KeyboardInterrupt
