"""The experiments of Knowles, Van Gael and Ghahramani (2011), and what a search step costs.

    python -m benchmarks.diffusion --data DIR [--out DIR] [--only
    fractal,prior,steps,animals,accuracy,mcmc,genes,skulls]

Answers are checked before times are reported. Figures go to --out.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.diffusion_animals import run_animals
from benchmarks.diffusion_density import run_genes, run_skulls
from benchmarks.diffusion_evidence import run_accuracy, run_mcmc
from benchmarks.diffusion_search import run_fractal, run_prior, run_steps
from benchmarks.measure import data_folder
from dtree.diffusion import laplace, prior, search
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.objective import Hyper

EXPERIMENTS: dict[str, Callable[[Path, Path], dict]] = {
    "fractal": run_fractal,
    "prior": run_prior,
    "steps": run_steps,
    "animals": partial(run_animals, exact=True),
    "accuracy": run_accuracy,
    "mcmc": run_mcmc,
    "genes": run_genes,
    "skulls": run_skulls,
}


def warm_up() -> None:
    leaves = leaves_from_data(prior.sample_data(8, 2, rng=np.random.default_rng(0))[0])
    state = search.build(leaves, Hyper(), np.random.default_rng(0))
    search.search(state, np.random.default_rng(0), 3)
    laplace.log_evidence_laplace(search.best_columns([state])[0][1], leaves, Hyper())


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--only", default=",".join(EXPERIMENTS), help="comma-separated experiments")
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    import matplotlib

    matplotlib.use("Agg")
    warm_up()
    names = arguments.only.split(",")
    if unknown := set(names) - set(EXPERIMENTS):
        parser.error(f"no experiment {min(unknown)!r}; there are {', '.join(EXPERIMENTS)}")
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        began = time.perf_counter()
        result = EXPERIMENTS[name](arguments.data, arguments.out)
        print(f"{name} ({time.perf_counter() - began:.1f} s)", json.dumps(result, indent=1), flush=True)
        (arguments.out / f"diffusion_{name}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
