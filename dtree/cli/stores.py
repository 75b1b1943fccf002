"""What commands are told about object stores."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

_OPTION = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option", metavar="KEY=VALUE",
        help="Endpoint or credential of an object store, beside the usual environment variables; may be repeated, and "
        "is written nowhere.",
    ),
]  # fmt: skip


def with_storage_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--storage-option`, which holds while it runs."""
    inner = inspect.signature(command, eval_str=True)
    added = inspect.Parameter("storage_option", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_OPTION)

    @functools.wraps(command)
    def run(*args: Any, storage_option: list[str] | None = None, **given: Any) -> Any:
        from dtree.storage.options import options_said, with_options

        with with_options(options_said(storage_option)):
            return command(*args, **given)

    run.__signature__ = inner.replace(parameters=[*inner.parameters.values(), added])  # type: ignore[attr-defined]
    run.__annotations__ = {**{name: p.annotation for name, p in inner.parameters.items()}, "storage_option": _OPTION}
    return run
