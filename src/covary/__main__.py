"""Entry point of ``python -m covary``."""

from covary.cli import main

main()
