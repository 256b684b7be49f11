"""Starts Dagster's daemon, after marking the runs that the previous daemon left behind as failed.

All runs are children of the daemon, which takes them from the queue. A reboot or a new container ends them with it, and
`eos up` ends what a crashed daemon left, but the instance still lists them as started: such a run would hold the place
of its pipeline for ever. Once it is marked as failed it is launched again, which is harmless at any moment.

`python -m eos_assets.local.daemon` takes the arguments of `dagster-daemon run`.
"""

import os
import sys

import dagster as dg

#: Launched, and not ended.
UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
ORPHANED = "The daemon that ran it has ended, and the run with it."


def fail_orphans(instance: dg.DagsterInstance) -> int:
    """Mark the runs of an ended daemon as failed, and return their number."""
    orphans = instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY))
    for run in orphans:
        instance.report_run_failed(run, ORPHANED)
    return len(orphans)


def main() -> None:
    with dg.DagsterInstance.get() as instance:
        fail_orphans(instance)
    command = [sys.executable, "-m", "dagster._daemon", "run", *sys.argv[1:]]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
