"""The command line, one file a command; `app` puts them together."""


def main() -> None:
    """Run the command line."""
    from dtree.cli.app import app

    app()
