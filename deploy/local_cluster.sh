#!/usr/bin/env bash
# A Dask scheduler and workers as separate processes on this machine, with TLS from nothing.
#
#   deploy/local_cluster.sh start [--workers N] [--memory-limit 1GB] [--port 8786] [--dir dtree-cluster]
#   deploy/local_cluster.sh stop  [--dir dtree-cluster]
#
# `start` stays in the foreground until Ctrl-C or `stop` from another terminal; a worker or scheduler that dies is started
# again. Certificates, logs and process ids are in the folder. PYTHON chooses the interpreter (one that has dtree installed).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
}

refuse() {
    echo "local_cluster.sh: $1" >&2
    exit 2
}

[ $# -ge 1 ] || usage
action=$1
shift
workers=2 memory_limit=1GB port=8786 dir=dtree-cluster
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
        --workers) workers=$2 ;;
        --memory-limit) memory_limit=$2 ;;
        --port) port=$2 ;;
        --dir) dir=$2 ;;
        *) usage ;;
    esac
    shift 2
done
[[ $workers =~ ^[1-9][0-9]*$ ]] || refuse "--workers must be a whole number of at least 1, not $workers"
[[ $port =~ ^[1-9][0-9]*$ ]] || refuse "--port must be a port number, not $port"

is_running() { # is the supervisor of this folder alive? (its number may have passed on to another program)
    [ -s "$dir/supervisor.pid" ] && ps -o args= -p "$(cat "$dir/supervisor.pid")" 2>/dev/null | grep -q local_cluster.sh
}

# Run a command for ever: NAME, then the command. A command that dies young is started again more and more slowly.
supervise() {
    local name=$1 child='' pause=1 began
    shift
    trap 'trap "" TERM; [ -z "$child" ] || { kill -TERM "$child" 2>/dev/null; wait "$child"; } || true; exit 0' TERM
    trap '' INT # Ctrl-C reaches the whole group; the supervisor decides the order
    while kill -0 $$ 2>/dev/null; do # $$ is the script itself: when it was killed, nothing is started again
        began=$SECONDS
        "$@" >>"$dir/$name.log" 2>&1 &
        child=$!
        echo "$child" >"$dir/$name.pid"
        wait "$child" || true
        child=''
        if [ -e "$dir/stopping" ]; then exit 0; fi # Dask ends at Ctrl-C by itself
        if [ $((SECONDS - began)) -ge 30 ]; then pause=1; fi
        echo "$(date +%H:%M:%S) $name ended: starting it again in $pause s (see $dir/$name.log)"
        sleep "$pause" &
        child=$!
        wait "$child" || true
        child=''
        pause=$((pause < 16 ? pause * 2 : 30))
    done
}

stop_group() { # end the workers, then the scheduler, and wait until they have ended
    trap '' INT TERM
    touch "$dir/stopping"
    echo "stopping"
    local pid
    for pid in ${worker_supervisors[@]+"${worker_supervisors[@]}"}; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in ${worker_supervisors[@]+"${worker_supervisors[@]}"}; do wait "$pid" 2>/dev/null || true; done
    if [ -n "$scheduler_supervisor" ]; then
        kill -TERM "$scheduler_supervisor" 2>/dev/null || true
        wait "$scheduler_supervisor" 2>/dev/null || true
    fi
    rm -f "$dir"/*.pid "$dir/scheduler.json" "$dir/stopping"
    echo "stopped"
}

start() {
    if is_running; then
        refuse "a cluster is already running in $dir: stop it, or choose another --dir"
    fi
    "$python" -c 'import distributed, cryptography' 2>/dev/null ||
        refuse "$python has no distributed or no cryptography: set PYTHON to the interpreter that dtree is installed in"
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    echo '*' >"$dir/.gitignore"
    rm -f "$dir"/*.pid "$dir/scheduler.json" "$dir/stopping"
    "$python" "$here/make_certificates.py" "$dir/certificates"
    local tls=(--tls-ca-file "$dir/certificates/ca.pem" --tls-cert "$dir/certificates/cert.pem"
        --tls-key "$dir/certificates/key.pem")
    local address=tls://127.0.0.1:$port
    echo $$ >"$dir/supervisor.pid"

    export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
    export DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=6 # long tasks outlive several workers
    # HTTP is not encrypted: it answers /health on this machine and nothing else.
    export DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES='["distributed.http.health"]'
    export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='["distributed.http.health"]'

    worker_supervisors=() scheduler_supervisor=''
    trap 'stop_group; exit 0' INT TERM
    supervise scheduler "$python" -m dask scheduler --protocol tls --host 127.0.0.1 --port "$port" "${tls[@]}" \
        --no-dashboard --dashboard-address 127.0.0.1:0 --scheduler-file "$dir/scheduler.json" &
    scheduler_supervisor=$!
    local number
    for number in $(seq "$workers"); do
        supervise "worker-$number" "$python" -m dask worker "$address" --protocol tls --host 127.0.0.1 "${tls[@]}" \
            --nthreads 1 --memory-limit "$memory_limit" --name "worker-$number" --death-timeout 60 \
            --no-dashboard --dashboard-address 127.0.0.1:0 --local-directory "$dir/scratch" &
        worker_supervisors+=($!)
    done

    # In the background and waited for, because bash runs a trap only between commands or during `wait`.
    "$python" "$here/wait_for_workers.py" "$address" "$workers" --timeout 120 --tls-ca "$dir/certificates/ca.pem" \
        --tls-cert "$dir/certificates/cert.pem" --tls-key "$dir/certificates/key.pem" &
    if ! wait $!; then
        echo "the cluster did not start: is port $port in use? see $dir/*.log" >&2
        stop_group
        exit 1
    fi
    cat <<READY
ready; in another terminal:

  dtree fit big.zarr --out run.zarr --scheduler $address --tls-ca $dir/certificates/ca.pem --tls-cert $dir/certificates/cert.pem --tls-key $dir/certificates/key.pem

READY
    wait
}

stop() {
    is_running || refuse "no cluster is running in $dir"
    kill -TERM "$(cat "$dir/supervisor.pid")"
    while is_running; do sleep 0.2; done
}

case $action in
    start) start ;;
    stop) stop ;;
    *) usage ;;
esac
