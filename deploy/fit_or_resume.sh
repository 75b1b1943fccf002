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
# A run in a bucket (s3://...): dtree itself knows what is there, and clears away what died before its first checkpoint.
case $run in
*://*)
    if python -c 'import sys
from dtree.runs.run import has_begun
from dtree.storage import located
sys.exit(not has_begun(located(sys.argv[1])))' "$run"; then
        exec dtree resume "$run" --scheduler "$scheduler"
    fi
    exec dtree fit "$data" --out "$run" --scheduler "$scheduler" "$@"
    ;;
esac
# A finished run has labels and no checkpoints any more: resuming it says what was found.
for begun in "$run"/checkpoints/gen-* "$run"/labels; do
    if [ -e "$begun" ]; then
        exec dtree resume "$run" --scheduler "$scheduler"
    fi
done
if [ -e "$run" ]; then
    # A run that died before its first checkpoint has lost nothing but a look at the data: start over. Whatever else
    # the folder may be, it is left alone.
    for found in "$run"/* "$run"/.[!.]*; do
        case ${found##*/} in
        zarr.json | settings | prepared | data | checkpoints | passes | staged | '*' | '.[!.]*') ;;
        .lease | .lease-*) ;;
        .zarr.json.partial-* | .settings.partial-* | .prepared.partial-*) ;;
        *)
            echo "$run is in the way: it holds $found, and no checkpoint to carry on from" >&2
            exit 2
            ;;
        esac
    done
    # Who has left its lease may still be alive: then dtree says so, and else it clears away what is left itself.
    [ -e "$run/.lease" ] || rm -rf -- "$run"
fi
exec dtree fit "$data" --out "$run" --scheduler "$scheduler" "$@"
