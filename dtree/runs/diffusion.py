"""A fitted `DiffusionTree` as a run: its prepared rows, its posterior and its parameters, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dtree.store.encode import decode, encode
from dtree.store.run import Contents, Kind, register

if TYPE_CHECKING:
    from dtree.engine.diffusion_estimator import DiffusionTree


def take_apart(model: DiffusionTree) -> Contents:
    """The storable pieces of a fitted model."""
    from dtree.diffusion.records import posterior_to_pieces, prepared_to_pieces

    arrays: dict[str, np.ndarray] = {}
    settings: dict[str, Any] = {}
    parts = {"prepared": prepared_to_pieces(model.prepared_), "posterior": posterior_to_pieces(model.posterior_)}
    for part, (columns, numbers) in parts.items():
        arrays |= {f"{part}/{name}": values for name, values in columns.items()}
        settings[part] = encode(numbers, f"{part}/numbers", arrays)
    parameters = {
        # A random generator has no state worth keeping once the fit is done.
        name: None if isinstance(value, np.random.RandomState | np.random.Generator) else value
        for name, value in model.get_params(deep=False).items()
        if name != "client"  # where it was fitted says nothing about what was found
    }
    settings["parameters"] = encode(parameters, "parameters", arrays)
    names = getattr(model, "feature_names_in_", None)
    settings["feature_names"] = encode(names, "feature_names", arrays)
    return Contents(arrays, settings)


def put_together(contents: Contents) -> DiffusionTree:
    """The model that `take_apart` was given, bit for bit; ValueError unless its pieces fit together."""
    from dtree.diffusion.records import posterior_from_pieces, prepared_from_pieces
    from dtree.engine.diffusion_estimator import DiffusionTree

    def pieces(part: str) -> tuple[dict[str, np.ndarray], Any]:
        found = {k.removeprefix(f"{part}/"): v for k, v in contents.arrays.items() if k.startswith(f"{part}/")}
        return found, decode(contents.settings.get(part), contents.arrays)

    parameters = decode(contents.settings.get("parameters"), contents.arrays)
    try:
        for name in ("precision_prior", "c_prior"):
            parameters[name] = tuple(parameters[name])
        model = DiffusionTree(**parameters)
        model.settings()
        prepared = prepared_from_pieces(*pieces("prepared"))
        posterior = posterior_from_pieces(*pieces("posterior"), prepared)
        model.put_together(prepared, posterior)
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        raise ValueError(f"its pieces do not make a diffusion tree ({problem})") from None
    names = decode(contents.settings.get("feature_names"), contents.arrays)
    if names is not None:
        if not isinstance(names, np.ndarray) or names.shape != (model.n_features_in_,):
            raise ValueError(f"it has {np.size(names)} feature names for {model.n_features_in_} features")
        model.feature_names_in_ = names
    return model


register("diffusion-tree", Kind(write=take_apart, read=put_together))
