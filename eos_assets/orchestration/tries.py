"""How often a sensor asked for something in vain, kept in its cursor: when to ask again, and when to give up."""

import json
from dataclasses import asdict, dataclass, field

#: What does not move is tried so often; the wait before each try doubles.
TRIES = 5
FIRST_WAIT_SECONDS = 10.0


class GivenUp(Exception):
    """Shown as a red tick in the UI, again and again, until a person has looked."""


@dataclass
class Tries:
    """How often something was asked for without effect, and when last. `at` is what did not move."""

    at: int = 0
    count: int = 0
    asked_at: float = 0.0

    def wait(self, now: float) -> float:
        """The seconds until the next try may begin: each wait is twice the last one."""
        return max(0.0, self.asked_at + FIRST_WAIT_SECONDS * 2 ** (self.count - 1) - now) if self.count else 0.0

    def again(self, now: float) -> "Tries":
        return Tries(self.at, self.count + 1, now)


@dataclass
class Cursor:
    """What was asked for last, by source partition or by the name of what is watched."""

    tries: dict[str, Tries] = field(default_factory=dict)

    @staticmethod
    def load(text: str | None) -> "Cursor":
        return Cursor({name: Tries(**tries) for name, tries in json.loads(text).items()}) if text else Cursor()

    def dump(self) -> str:
        return json.dumps({name: asdict(tries) for name, tries in self.tries.items()})

    def only(self, name: str) -> dict[str, Tries]:
        return {name: self.tries[name]} if name in self.tries else {}

    def of(self, name: str, at: int) -> Tries:
        """The tries at this position: none, if it has moved since."""
        known = self.tries.get(name)
        return known if known and known.at == at else Tries(at)
