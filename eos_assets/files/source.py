"""Where bytes come from: what every kind of store gives."""

from collections.abc import Callable
from dataclasses import dataclass

#: At most so many bytes, as soon as there are some; none at the end.
Read = Callable[[int], bytes]


@dataclass(frozen=True)
class Source:
    """The bytes of one file. If the end is not sure, a file that was cut ends like one that is whole."""

    read: Read
    sure_end: bool = True
