"""Where bytes come from: the one thing that every kind of store gives."""

from collections.abc import Callable

#: At most so many bytes, as soon as there are some; none at the end.
Read = Callable[[int], bytes]
