"""``python -m covary``: the command."""

from covary.cli import main

main()
