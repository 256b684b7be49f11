"""The failpoints of the protocol. Production injects no fault; experiments and tests bring their own."""

FAILPOINTS = ("before_init", "after_init", "mid_read", "mid_produce", "after_offsets", "before_commit", "after_commit")


class NoFaults:
    """The faults of production: none."""

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        """Pass a failpoint.

        Args:
            failpoint: one of `FAILPOINTS`.
            partition: the source partition.
            start: the first source offset of the transaction; before one is open, that of the planned range.
            run_attempt: the number of the Spark job within the run, from 1.
            task_attempt: the number that Spark gives the task attempt, from 0.
        """
