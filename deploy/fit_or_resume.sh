#!/bin/sh
# Fit, or carry on when the run has begun already: a job that may be started again any number of times.
#
#   fit_or_resume.sh SCHEDULER DATA RUN [options of dtree fit]
#
# The TLS files are those of Dask's configuration (environment variables DASK_DISTRIBUTED__COMM__TLS__...). Exit codes are
# dtree's: 0 done, 1 failed (start it again), 2 bad input (starting it again will not help).
set -eu
if [ $# -lt 3 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
scheduler=$1 data=$2 run=$3
shift 3
if [ -e "$run/zarr.json" ]; then
    exec dtree resume "$run" --scheduler "$scheduler"
fi
exec dtree fit "$data" --out "$run" --scheduler "$scheduler" "$@"
