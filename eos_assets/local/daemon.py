"""Starts Dagster's daemon, after marking the runs of the previous daemon as failed.

All runs are children of the daemon, which takes them from the queue. A reboot or a new container ends them with it, and
`eos up` ends what a crashed daemon left, but the instance still lists them as started. Such a run would occupy the pool
of its pipeline forever. Once it is marked as failed it is launched again, which is harmless at any moment.

`python -m eos_assets.local.daemon` takes the arguments of `dagster-daemon run`.
"""

import sys

import dagster as dg
from dagster._daemon import sensor
from dagster._daemon.cli import main as run_daemon

#: Launched, and not ended.
UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
#: The time between two rounds of sensors. Dagster has no setting for it, and its 5 s are half of the time that a new
#: record may take to its committed output.
ROUND_SECONDS = 2
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
    sensor.MIN_INTERVAL_LOOP_TIME = ROUND_SECONDS
    sys.argv.insert(1, "run")
    run_daemon()


if __name__ == "__main__":
    main()
