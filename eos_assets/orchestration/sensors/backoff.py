"""The back-off of the sensors: how often a run was requested without effect, kept in the cursor of the sensor."""

import json
from dataclasses import dataclass, field

#: The number of requests at one position. The delay doubles with each of them.
MAX_REQUESTS = 5
FIRST_DELAY_SECONDS = 10.0


class SensorAlert(Exception):
    """A problem that needs an operator. It fails each tick of the sensor, which the UI shows in red."""


@dataclass(frozen=True)
class Requests:
    """The requests that were made at one position without effect."""

    position: int = 0
    count: int = 0
    #: When the last request was made or, without any, when the position was first seen.
    timestamp: float = 0.0

    def delay(self, now: float) -> float:
        """The seconds until the next request may be made."""
        return max(0.0, self.timestamp + FIRST_DELAY_SECONDS * 2 ** (self.count - 1) - now) if self.count else 0.0

    def due(self, now: float) -> bool:
        return self.count < MAX_REQUESTS and self.delay(now) <= 0

    def exhausted(self, now: float) -> bool:
        """Whether the delay after the last of the allowed requests is over."""
        return self.count >= MAX_REQUESTS and self.delay(now) <= 0

    def next(self, now: float) -> "Requests":
        return Requests(self.position, self.count + 1, now)


@dataclass
class Cursor:
    """The requests, by source partition or by the name of something else that the sensor watches."""

    requests: dict[str, Requests] = field(default_factory=dict)

    @staticmethod
    def load(text: str | None) -> "Cursor":
        entries = json.loads(text) if text else {}
        return Cursor({name: Requests(e["at"], e["count"], e["asked_at"]) for name, e in entries.items()})

    def dump(self) -> str:
        return json.dumps(
            {name: {"at": r.position, "count": r.count, "asked_at": r.timestamp} for name, r in self.requests.items()}
        )

    def requests_at(self, name: str, position: int) -> Requests:
        """The requests at this position: none if it has advanced since."""
        known = self.requests.get(name)
        return known if known and known.position == position else Requests(position)
