"""The command ``covary``: fit, predict, report, info, datasets, export, demo.

Heavy packages are imported inside the commands, so that help is quick.
"""
# nothing is imported here, not even from __future__: "python -m covary" would look for it in the current folder


def main() -> None:
    """What the shell calls."""
    import os
    import sys

    _leave_out_current_folder()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's own chatter
    try:
        from covary.cli.app import app
        from covary.cli.doors import end_on_signals

        end_on_signals()
        app(prog_name="covary")
    except KeyboardInterrupt:  # before a command has begun
        sys.stderr.write("covary: error: interrupted; nothing was written.\n")
        sys.exit(130)


def _leave_out_current_folder() -> None:
    """Import what is installed: a ``click.py`` that lies beside the data is none of the command's business.

    ``python -m covary`` puts the current folder first; an empty entry of PYTHONPATH stands for it, and so may links.
    """
    import os
    import sys

    def elsewhere(path: str) -> bool:
        try:
            return not os.path.samefile(path or os.curdir, os.curdir)
        except OSError:  # one of them is not there
            return path not in ("", os.curdir)

    sys.path[:] = filter(elsewhere, sys.path)
