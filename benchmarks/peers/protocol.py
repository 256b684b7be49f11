"""The line protocol of the peers in Python, which is that of `java/Peer.java`. It imports nothing of this project."""

import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Arguments:
    """The arguments of a peer: `servers=…`, `producer.<name>=…`, `consumer.<name>=…` and its own."""

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: list[str]) -> "Arguments":
        return cls(dict(word.split("=", 1) for word in words))

    def with_prefix(self, prefix: str) -> dict[str, str]:
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}

    def __getitem__(self, name: str) -> str:
        return self.values[name]


@dataclass(frozen=True)
class Command:
    """One line `run <source> <sink> <workload> <id>`."""

    source: str
    sink: str
    workload: str
    id: str


def serve(run: Callable[[Arguments, Command], Callable[[], None]]) -> None:
    """Run what the lines of the standard input ask for, until it ends. `run` returns what is left to close once the
    output is committed."""
    arguments = Arguments.parse(sys.argv[1:])
    answer("ready")
    for line in sys.stdin:
        try:
            close = run(arguments, Command(*line.split()[1:]))
            answer("done")
            close()
        except Exception as failure:
            traceback.print_exc()
            answer(f"failed {type(failure).__name__}: {failure}".replace("\n", " "))
            sys.exit(1)
        answer("ready")


def answer(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def transform_of(workload: str) -> Callable[[bytes], bytes]:
    return square if workload == "integers" else bytes.upper


def square(value: bytes) -> bytes:
    number = int(value)
    return b"%d" % (number * number)
