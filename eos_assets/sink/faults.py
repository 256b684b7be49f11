"""Where faults can be injected. In production nothing is: the experiment and the tests bring their own."""

FAILPOINTS = ("before_init", "after_init", "mid_read", "mid_produce", "after_offsets", "before_commit", "after_commit")


class NoFaults:
    """Called at each failpoint of the protocol; does nothing."""

    def reach(self, failpoint: str, partition: int, start: int, run_attempt: int, task_attempt: int) -> None:
        """
        Args:
            failpoint: one of `FAILPOINTS`.
            partition: the source partition.
            start: the first source offset of the transaction, or of the plan before one is open.
            run_attempt: which Spark job of the run it is, from 1.
            task_attempt: Spark's number of the task attempt, from 0.
        """
