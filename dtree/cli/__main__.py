"""`python -m dtree.cli`."""

from dtree.cli import main

main()
