"""The command ``covary``: fit, predict, report, info, datasets, export, demo.

Heavy packages are imported inside the commands, so that ``--help`` is fast.
"""
# nothing is imported here, not even from __future__: "python -m covary" would import it from the current folder


def main() -> None:
    """Run the command line: the entry point of ``covary``."""
    import os
    import sys

    _leave_out_current_folder()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # silences XLA's log messages
    try:
        from covary.cli.app import app
        from covary.cli.errors import end_on_signals

        end_on_signals()
        app(prog_name="covary")
    except KeyboardInterrupt:  # before a command starts
        sys.stderr.write("covary: error: interrupted; nothing was written.\n")
        sys.exit(130)


def _leave_out_current_folder() -> None:
    """Remove the current folder from ``sys.path``, so that a ``click.py`` next to the data is never imported.

    ``python -m covary`` puts the current folder first; an empty entry of PYTHONPATH means it too, and links may lead to it.
    """
    import os
    import sys

    def elsewhere(path: str) -> bool:
        try:
            return not os.path.samefile(path or os.curdir, os.curdir)
        except OSError:  # one of the two does not exist
            return path not in ("", os.curdir)

    sys.path[:] = filter(elsewhere, sys.path)
