"""Which family works with which method: generated from the registries, and every cell is tried by the tests.

Every method runs in this process (arrays, files), on the workers of a Dask client, and as a command; one answer for one
seed, wherever it runs.

{table}

A family of your own needs three things: `statistics`, `compile` and a kernel for `log_marginal` (see
`dtree/core/families/base.py`). Everything else has a default. It works under a name, and so on the command line, when it
also has `defaults`. The sampler `"slice"` alone needs draws of a cluster's parameters, which the families of dtree have.
Diffusion trees have no family: they take real rows, or rows of zeros and ones with `likelihood="probit"`.
"""


def support_table() -> str:
    """The table as Markdown: a row for each method, a column for each family."""
    from dtree.core.families import FAMILIES
    from dtree.methods import METHODS, method_named

    heads = ["method", "class", "command", *(f"`{name}`" for name in FAMILIES), "your own"]
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    for name in METHODS:
        method = method_named(name)
        cells = ["yes" if method.takes(family) else "no" for family in FAMILIES.values()]
        own = "yes" if "family" in method.Settings.__struct_fields__ else "no"
        command = f"`dtree {method.command}`" if method.command else ""
        lines.append(f"| {name} | `{method.estimator}` | {command} | " + " | ".join([*cells, own]) + " |")
    return "\n".join(lines)


__doc__ = (__doc__ or "").replace("{table}", support_table())
