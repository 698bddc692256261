"""``covary export``: write a model as one Python file that needs NumPy only."""

from __future__ import annotations

import shlex
from pathlib import Path

from covary._checks import CovaryError, NotEnoughMemory
from covary._errors import Option
from covary._words import size
from covary._write import NotWritten
from covary.cli.errors import BadModel, Run, usage
from covary.cli.output import blaming, check_place, is_stream, load_model, write_json
from covary.cli.workers import enable_cache


def run_export(run: Run, model: str, out: str, *, std: bool, as_json: bool, quiet: bool) -> None:
    """Write the predictor, and report its deviation from the model."""
    from covary.export import export_model

    if Path(out).suffix != ".py" and not is_stream(out):
        raise usage("file", Option("file") + f" is {out!r}", "give a name that ends in .py")
    check_place(out, model, argument="file")
    enable_cache()
    fit, _ = load_model(model)
    try:
        with blaming("file"):
            off = export_model(fit, out, std=std)
    except (NotEnoughMemory, NotWritten):
        raise
    except CovaryError as error:
        raise error.turned(BadModel) from None
    run.written.append(out)
    length = None if is_stream(out) else Path(out).stat().st_size
    if as_json:
        write_json({"model": model, "written": out, "bytes": length, "deviation": off})
    elif not quiet and length is not None:
        near = ", ".join(f"{name} within {value:.0e}" for name, value in off.items())
        print(f"wrote {out} ({size(length)}): {near} of the model's predictions")
        print(f"now try: python {shlex.quote(out)} new.csv predictions.csv")
