"""Commands that fit, made from the settings of their methods: `fit`, `sample`, `vb` and `ddt` share this one body."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dtree.cli.arguments import (
    COLUMN,
    DATA,
    DRY_RUN,
    LABELS_COLUMN,
    LOG_FILE,
    OUT,
    OVERWRITE,
    SEED,
    TIME_LIMIT,
    columns_said,
    seconds_in,
)
from dtree.cli.cluster import Cluster, cluster_options, stopped
from dtree.cli.console import OUT_OF_TIME, code_of, progress_bar, say
from dtree.core.progress import also_listening
from dtree.methods import method_named
from dtree.methods.settings import Option, checked, options_of

_ALPHA = Option("alpha", float, True, None, "Concentration of the prior: more means more clusters.", None, None, "", ())
_OLD_WORDS = {"max_iter": "--max-passes"}  # of the last version, understood still


def fitting_command(
    methods: Sequence[str],
    explanation: str,
    choose: Callable[..., str] | None = None,
    own: Sequence[Option] = (),
    data: Any = DATA,
) -> Callable[..., None]:
    """A command that fits one of some methods; its options are theirs, and some of its `own`.

    choose(source, given, cluster) -> name of the method; by default the only one. `explanation` is the text of --help.
    """
    fields = {_python_name(option): option for option in _options(methods, own)}

    def run(**words: Any) -> None:
        given = {}
        for name, option in fields.items():
            value = _value(option, words.pop(name))
            if value is not _LEFT_OUT:
                given[option.name] = value
        fit(methods, choose, given, Words(out=words.pop("out_"), **words))

    parameters = [
        _parameter("data", data),
        _parameter("out_", OUT),
        *(_parameter(name, _annotation(option), _default(option)) for name, option in fields.items()),
        _parameter("seed", SEED, 0),
        _parameter("labels_column", LABELS_COLUMN, None),
        _parameter("column", COLUMN, None),
        _parameter("overwrite", OVERWRITE, False),
        _parameter("time_limit", TIME_LIMIT, None),
        _parameter("log_file", LOG_FILE, None),
        _parameter("dry_run", DRY_RUN, False),
        inspect.Parameter("cluster", inspect.Parameter.KEYWORD_ONLY, annotation=Cluster),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = explanation
    return cluster_options(run)


class Words(NamedTuple):
    """What every fitting command is told besides its settings."""

    data: str
    out: str
    seed: int
    labels_column: str | None
    overwrite: bool
    time_limit: str | None
    cluster: Cluster
    column: list[str] | None = None
    log_file: Path | None = None
    dry_run: bool = False


def fit(methods: Sequence[str], choose: Callable[..., str] | None, given: dict[str, Any], words: Words) -> None:
    """The body of every fitting command: open, choose, drive, describe."""
    from dtree.cli.describe import agreement_line, describe, describe_table, hints_before_a_fit
    from dtree.data import open_source
    from dtree.runs.run import begin_at, check_output, is_run

    seconds_in(words.time_limit)
    (check_output if words.dry_run else begin_at)(words.out, words.overwrite)  # before anything costs time
    source: Any = words.data
    columns = columns_said(words.column)
    if not is_run(words.data):
        source = open_source(words.data, labels_column=words.labels_column, columns=columns)
    elif columns:
        raise ValueError(f"{words.data} is a run, whose columns are known: leave out --column")
    method = method_named(methods[0] if choose is None else choose(source, given, words.cluster))
    settings = settings_for(method, given)
    if not isinstance(source, str) and (source.beside.is_coded or source.left_out or columns):
        # Before anything costs time: it may not be what was meant.
        describe_table(source.kinds, source.left_out, words.data)
        hints_before_a_fit(source.kinds)
    if words.dry_run:
        from dtree.cli.dry_run import plan

        plan(method, settings, source, words.cluster)
        return
    run = _fitted(method, settings, source, words)
    describe(run)
    if not isinstance(source, str) and source.labels is not None:
        agreement_line(run, source.labels, words.labels_column)
    say(f"run: {words.out}")


def _fitted(method: Any, settings: Any, source: Any, words: Words) -> Any:
    """The finished run; a stop is said and ends the command."""
    from dtree.cli.log_file import logged
    from dtree.engine.drive import Given, Place, drive, in_words

    begin = {"data": words.data, "run": str(words.out), "settings": in_words(settings), "seed": words.seed}
    rows = 0 if isinstance(source, str) else source.shape[0]
    with logged(words.log_file, method=method.name, rows=rows, **begin) as log:
        with at_work(method, settings, rows, words.cluster, words.out, log) as (client, show):
            given = Given(source, words.labels_column, random_state=words.seed)
            place = Place(words.out, words.overwrite, client, seconds_in(words.time_limit))
            run = drive(method, settings, given, place, method.seed_of(words.seed), show)
        log.done(run)
    return run


def settings_for(method: Any, given: dict[str, Any]) -> Any:
    """The settings of a method from what was said on the command line."""
    given = dict(given)
    known = {option.name for option in options_of(method.Settings)}
    if "alpha" in given and "alpha" not in known:
        from dtree.core.checks import named
        from dtree.core.priors import PRIORS

        prior = given.get("prior", "dp")
        given["prior"] = named(PRIORS, prior, "prior")(alpha=given.pop("alpha"))
    for name in set(given) - known:
        raise ValueError(f"--{name.replace('_', '-')} is not an option of the method {method.name}: leave it out")
    return checked(method.Settings, given)


@contextmanager
def at_work(
    method: Any, settings: Any, rows: int, cluster: Cluster, out: str, log: Any, run: Any = None
) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """Gives a Dask client (or None), and a callback which shows how a fit goes and writes it into a log.

    A stop of the block is said and ends the command; `run` is one that goes on.
    """
    from dtree.cli.chain_table import chain_table
    from dtree.engine.drive import OutOfTime

    try:
        with (
            cluster.client_for(method, settings, rows) as client,
            chain_table(settings.sampler, run) if method.name == "chains" else progress_bar() as show,
            also_listening(log.listen),
        ):
            yield client, log.also(show)
    except KeyboardInterrupt as stop:
        raise stopped(out, code_of(stop)) from None
    except OutOfTime:
        raise stopped(out, OUT_OF_TIME) from None


# Options from settings ------------------------------------------------------------------------------------------------

_LEFT_OUT = object()  # stands for an option that was not given, so that the default is said in one place: the settings


def _options(methods: Sequence[str], own: Sequence[Option]) -> list[Option]:
    found = {option.name: option for option in own}
    for name in methods:
        for option in options_of(method_named(name).Settings):
            if option.command is not None:
                found.setdefault(option.name, option)
    if "prior" in found and "alpha" not in found:
        found["alpha"] = _ALPHA
    return list(found.values())


def _python_name(option: Option) -> str:
    return (option.command or option.name).lstrip("!").replace("-", "_")


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _annotation(option: Option) -> Any:
    word = "--" + _python_name(option).replace("_", "-")
    help = option.help
    if option.choices:
        help = f"{help} One of {', '.join(map(str, option.choices))}."
    if option.type is bool:
        flag = (
            word
            if (option.command and option.command.startswith("!")) or not option.default
            else f"{word}/--no-{word[2:]}"
        )
        return Annotated[bool, typer.Option(flag, help=help)]
    words = [word, *([_OLD_WORDS[option.name]] if option.name in _OLD_WORDS else [])]
    kind = option.type if option.type in (int, float) else str
    default = "" if option.default is None else f" [default: {option.default}]"
    return Annotated[kind | None, typer.Option(*words, help=f"{help}{default}", show_default=False)]


def _default(option: Option) -> Any:
    if option.type is bool:
        return False if (option.command or "").startswith("!") else bool(option.default)
    return None


def _value(option: Option, value: Any) -> Any:
    if value is None or (option.type is bool and value == _default(option)):
        return _LEFT_OUT
    if option.type is bool:
        return not value if (option.command or "").startswith("!") else value
    if option.type not in (int, float) and isinstance(value, str) and not option.choices:
        return _number_or_word(value)
    return value


def _number_or_word(text: str) -> Any:
    """A setting that takes a word or a number, such as noise: auto or 0.1."""
    try:
        return float(text)
    except ValueError:
        return text
