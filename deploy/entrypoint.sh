#!/bin/sh
# Start a command in the image, whose kernels may have been compiled for a given type of CPU (DTREE_CPU_NAME). They are only
# used from a folder that can be written, because those for another type of CPU are added there; where the root file system
# is read-only, work on a copy.
set -eu
if [ -n "${DTREE_CPU_NAME:-}" ]; then # numba takes an empty name for a name
    export NUMBA_CPU_NAME="$DTREE_CPU_NAME"
fi
if [ -d "$DTREE_CACHE_DIR" ] && [ ! -w "$DTREE_CACHE_DIR" ]; then
    copy=${TMPDIR:-/tmp}/dtree-cache
    mkdir -p "$copy"
    cp -R "$DTREE_CACHE_DIR/." "$copy/"
    export DTREE_CACHE_DIR="$copy"
fi
exec "$@"
