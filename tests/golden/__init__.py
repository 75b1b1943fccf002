"""Values computed independently (direct formulas, enumeration, quadrature); see each test for what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dtree.core.families import Bernoulli, DiagonalGaussian, Family, Gaussian, Multinomial, Poisson
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior


def golden(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())


def golden_family(case: dict[str, Any]) -> Family:
    p = case["params"]
    match case["family"]:
        case "niw":
            return Gaussian(mean=p["m"], strength=p["r"], dof=p["nu"], scale=p["Psi"])
        case "diag_nig":
            return DiagonalGaussian(mean=p["m"], strength=p["k"], shape=p["a"], rate=p["b"])
        case "beta_bernoulli":
            return Bernoulli(a=p["a"], b=p["b"])
        case "dirichlet_multinomial":
            return Multinomial(concentration=p["beta"], coefficient=p["coefficient"])
        case "gamma_poisson":
            return Poisson(shape=p["a"], rate=p["b"])
    raise KeyError(case["family"])


def golden_prior(case: dict[str, Any], u: float | None = None) -> Prior:
    if case["measure"] == "dp":
        return DirichletProcess(alpha=case["params"]["alpha"], u=u)
    return GeneralizedGamma(alpha=case["params"]["alpha"], sigma=case["params"]["sigma"], u=u or 1.0)
