"""How the records of one source partition are written and committed: the interface between writer and delivery.

Production has one delivery, `TransactionalDelivery`. The baseline deliveries in `eos_assets.experiment` exist to be
compared with it.
"""

from typing import Protocol

from eos_assets.log.ledger import LedgerEntry
from eos_assets.sink.job import Attempt
from eos_assets.sink.resume import AlreadyDone, OffsetsMoved, StalePlan
from eos_assets.sink.transaction_batch import TransactionBatch

#: Why an attempt writes nothing.
NothingToWrite = AlreadyDone | StalePlan | OffsetsMoved


class OpenBatch(Protocol):
    """A batch that is being written. It ends with `commit` or `abandon`, and then with `close`."""

    @property
    def batch(self) -> TransactionBatch: ...

    def begin(self, next_offset: int) -> None:
        """Called before the records up to this source offset are produced, more than once in a batch."""

    def commit(self, next_offset: int) -> LedgerEntry:
        """Commit the records, and this source offset as the next one to process."""

    def settle(self) -> None:
        """Called after a commit that another batch follows."""

    def abandon(self, failure: BaseException) -> None:
        """Called instead of `commit` after a failure."""

    def close(self) -> None: ...

    def seconds_open(self) -> float:
        """How long the broker's transaction timeout has been running; 0 if it is not."""


class Delivery(Protocol):
    """The batches of one source partition, one after the other."""

    def open(self) -> OpenBatch | NothingToWrite:
        """Open the batch after what is committed, unless the attempt has nothing to write."""

    def prepare_next(self) -> None:
        """Called before a commit that another batch follows."""

    def close(self) -> None: ...


class OpenDelivery(Protocol):
    """Opens the delivery of an attempt. A job refers to one, so workers must be able to import it."""

    def __call__(self, attempt: Attempt) -> Delivery: ...
