"""`dtree resume`: carry on a run of any method."""

from typing import Annotated

import typer

from dtree.cli.arguments import LOG_FILE, RUN, TIME_LIMIT, seconds_in
from dtree.cli.cluster import Cluster, cluster_options
from dtree.cli.command import at_work
from dtree.cli.console import say


@cluster_options
def command(
    run: RUN,
    accept_changed_data: Annotated[
        bool, typer.Option("--accept-changed-data", help="Start over when the data are not what they were.")
    ] = False,
    time_limit: TIME_LIMIT = None,
    log_file: LOG_FILE = None,
    *,
    cluster: Cluster,
) -> None:
    """Carry on a run that was stopped, killed or cut off; at most one pass is repeated.

    Example: `dtree resume creatures-ddt.zarr` (the example of `dtree ddt` makes that run)
    """
    from dtree.cli.describe import describe
    from dtree.cli.log_file import logged
    from dtree.engine.drive import job_of, resume
    from dtree.runs.run import Run, is_run, place_of, unfinished
    from dtree.storage import located

    place, seconds = unfinished(run), seconds_in(time_limit)
    if not is_run(place):
        raise ValueError(f"{run} is not a dtree run, so there is nothing to resume")
    opened = Run.open(place)
    if not opened.header.done:
        job = job_of(opened)
        with logged(log_file, method=job.method.name, rows=job.n, run=str(run), resumed=True) as log:
            with at_work(job.method, job.settings, job.n, cluster, run, log, place) as (client, show):
                opened = resume(place, client, show, accept_changed_data, seconds)
            log.done(opened)
    elif place != located(run):
        opened = resume(place)  # a finished run that was stopped before it took the place of another
    describe(opened)
    say(f"run: {place_of(located(run))}")
