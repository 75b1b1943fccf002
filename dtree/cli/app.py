"""The command line: which commands there are. One file each, loaded when asked for, so that --help comes at once."""

import importlib.util
import inspect
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dtree.cli.console import with_exit_codes
from dtree.cli.stores import with_storage_options

# A command lives in `dtree.cli.NAME`, which offers it as a function called `command`; a method of that name that has no
# such file is fitted by a command made of its settings, with the words of its docstring.
COMMANDS = {
    "demo": "Cluster a small built-in dataset: nine kinds of creature in three orders.",
    "fit": "Find the clusters of a data file and the tree above them, and write them as a run.",
    "sample": "Sample partitions from their posterior with several chains, into a run.",
    "vb": "Fit a Dirichlet process mixture by variational inference.",
    "ddt": "Fit Dirichlet diffusion trees: a density, a hierarchy with times, and clusters at a cut.",
    "levels": "Show other levels at which a run can be cut, without fitting again.",
    "predict": "Assign new rows to the clusters of a run, with the log density of each row.",
    "impute": "Fill in the missing values of a table by a run.",
    "resume": "Carry on a run that was stopped, killed or cut off.",
    "status": "Say how far a run is, also while it runs elsewhere.",
    "info": "Say what a run holds and where it came from.",
    "verify": "Read every array of a run, and of its data if asked to, and name what is damaged.",
    "report": "Write one HTML page about a run.",
    "convert": "Write a finished run of dtree 0.1 as a run of this version.",
    "export": "Write parts of a run in formats that other programs read.",
    "warm": "Compile now what a first fit would compile, on all cores.",
    "bench": "Time exact trees of made-up rows here, beside SciPy's average linkage.",
}


_WITHOUT_STORES = ("demo", "bench")  # which read and write here


def _function_of(name: str) -> Any:
    if importlib.util.find_spec(f"dtree.cli.{name}") is not None:
        return importlib.import_module(f"dtree.cli.{name}").command
    from dtree.cli.command import fitting_command
    from dtree.methods import method_named

    return fitting_command([name], inspect.getdoc(method_named(name)) or COMMANDS[name])


class LazyCommands(TyperGroup):
    """Commands that are imported when they are called; the list of commands needs only the table above."""

    listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        if self.listing:
            return TyperCommand(name, help=COMMANDS[name], short_help=COMMANDS[name])
        one = typer.Typer(
            pretty_exceptions_enable=False,
            rich_markup_mode="markdown",
            context_settings={"help_option_names": ["-h", "--help"]},
            add_completion=False,
        )
        command = _function_of(name)
        one.command(name)(with_exit_codes(command if name in _WITHOUT_STORES else with_storage_options(command)))
        found = typer.main.get_command(one)
        found.name = name
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self.listing = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.listing = False


app = typer.Typer(
    name="dtree",
    cls=LazyCommands,
    help="Find the clusters in your data and the tree above them: how many there are, and how sure that is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from dtree.cli.console import out
        from dtree.runs.header import versions_here

        found = versions_here()
        out().print(
            f"dtree {found['dtree']} (python {found['python']}, numpy {found['numpy']}, numba {found['numba']})"
        )
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and leave."
    ),
) -> None:
    pass
