"""Dagster's daemon, after a look for runs that the last one left behind.

All runs are children of the daemon: it takes them from the queue and starts them. A reboot or a new container ends them
with it, and `eos up` ends what a daemon that crashed left behind; nobody is left to tell the instance. Such a run would
hold the place of its pipeline for ever. So it is told here; then it is launched again, which is harmless at any moment.

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
TOLD = "The daemon that ran it has ended, and the run with it."


def end_orphans(instance: dg.DagsterInstance) -> int:
    """Marks the runs of an ended daemon as failed. Returns how many."""
    orphans = instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY))
    for run in orphans:
        instance.report_run_failed(run, TOLD)
    return len(orphans)


def main() -> None:
    with dg.DagsterInstance.get() as instance:
        end_orphans(instance)
    command = [sys.executable, "-m", "dagster._daemon", "run", *sys.argv[1:]]
    os.execv(sys.executable, command)


if __name__ == "__main__":
    main()
