"""The command ``covary``: fit, predict, report, info, datasets, export, demo.

Heavy packages are imported inside the commands, so that help is quick.
"""

from __future__ import annotations


def main() -> None:
    """What the shell calls."""
    import os
    import sys

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's own chatter
    try:
        from covary.cli.app import app

        app(prog_name="covary")
    except KeyboardInterrupt:  # before a command has begun
        sys.stderr.write("covary: error: interrupted; nothing was written.\n")
        sys.exit(130)
