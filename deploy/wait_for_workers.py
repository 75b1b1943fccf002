"""Wait until a Dask cluster has its workers: a fit started earlier could not size its chunks by their memory.

    python wait_for_workers.py tls://scheduler:8786 4 --tls-ca ca.pem --tls-cert cert.pem --tls-key key.pem

Without the --tls options the TLS files are those of Dask's own configuration (`distributed.comm.tls`).
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from distributed import Client, Security


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit code 0 when the workers are there, 1 when they are not in time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scheduler", help="address of the scheduler, e.g. tls://scheduler:8786")
    parser.add_argument("workers", type=int, help="how many workers to wait for")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds before giving up (300)")
    parser.add_argument("--tls-ca")
    parser.add_argument("--tls-cert")
    parser.add_argument("--tls-key")
    options = parser.parse_args(arguments)
    security = None
    if options.tls_ca:
        security = Security(
            require_encryption=True,
            tls_ca_file=options.tls_ca,
            tls_client_cert=options.tls_cert,
            tls_client_key=options.tls_key,
        )
    logging.getLogger("distributed").setLevel(logging.ERROR)  # a scheduler that is still starting is no news
    try:
        with Client(options.scheduler, security=security, timeout=options.timeout, set_as_default=False) as client:
            client.wait_for_workers(options.workers, timeout=options.timeout)
            found = client.scheduler_info(n_workers=-1)["workers"].values()
    except OSError as problem:  # TimeoutError among them
        print(
            f"no {options.workers} workers at {options.scheduler} after {options.timeout:.0f} s: {problem}",
            file=sys.stderr,
        )
        return 1
    smallest = min(worker["memory_limit"] for worker in found)
    print(f"{len(found)} workers at {options.scheduler}, {smallest / 1e9:.2f} GB of memory in the smallest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
