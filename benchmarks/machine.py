"""The machine and the versions with which results were measured."""

import importlib.metadata
import os
import platform
import re
from pathlib import Path

import psutil
from pydantic import BaseModel

from benchmarks.peers.java import JARS
from benchmarks.peers.quix_environment import REQUIREMENTS
from eos_assets.errors import EosError
from eos_assets.platform.jars import version_of
from eos_assets.platform.java import find_java


class Machine(BaseModel):
    """Where results come from."""

    processor: str
    cores: int
    memory_bytes: int
    system: str
    #: What took part → its version.
    versions: dict[str, str]

    @classmethod
    def this_one(cls) -> "Machine":
        return cls(
            processor=processor_name(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=psutil.virtual_memory().total,
            system=f"{platform.system()} {platform.release()}",
            versions=versions(),
        )


def processor_name() -> str:
    try:
        match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1) if match else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    return {
        "eos_assets": importlib.metadata.version("eos-assets"),
        "Apache Kafka (broker)": version_of("kafka_2.13"),
        "Spark": importlib.metadata.version("pyspark"),
        "Flink": version_of("flink-streaming-java", JARS),
        "Flink's Kafka connector": version_of("flink-connector-kafka", JARS),
        "Kafka Streams": version_of("kafka-streams", JARS),
        "confluent-kafka": importlib.metadata.version("confluent-kafka"),
        "Quix Streams": pinned("quixstreams"),
        "Python": platform.python_version(),
        "Java": java_version(),
    }


def pinned(package: str) -> str:
    """The version in the requirements of Quix."""
    match = re.search(rf"^{package}==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    return match.group(1) if match else "unknown"


def java_version() -> str:
    try:
        return find_java().version
    except EosError:
        return "none"
