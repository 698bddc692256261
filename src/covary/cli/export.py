"""``covary export``: a model file as one Python file that needs NumPy and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path

from covary._checks import CovaryError, NotEnoughMemory
from covary._write import NotWritten
from covary.cli.doors import BadModel, BadUsage, Run, sentence
from covary.cli.fitting import enable_cache
from covary.cli.info import size
from covary.cli.model_file import load_model
from covary.cli.output import check_place, is_stream, write_json


def run_export(run: Run, model: str, out: str, *, std: bool, as_json: bool, quiet: bool) -> None:
    """Write the predictor, and say how close it is to the model."""
    from covary.export import export_model

    if Path(out).suffix != ".py" and not is_stream(out):
        raise BadUsage(f"the file to write is {out!r}; give a name that ends in .py.")
    check_place(out, model, option="the file to write")
    enable_cache()
    estimator, _ = load_model(model)
    try:
        off = export_model(estimator, out, std=std)
    except (NotEnoughMemory, NotWritten):
        raise
    except CovaryError as error:
        raise BadModel(sentence(error)) from None
    run.written.append(out)
    length = None if is_stream(out) else Path(out).stat().st_size
    if as_json:
        write_json({"model": model, "written": out, "bytes": length, "deviation": off})
    elif not quiet and length is not None:
        near = ", ".join(f"{name} within {value:.0e}" for name, value in off.items())
        print(f"wrote {out} ({size(length)}): {near} of the model's")
        print(f"now try: python {shlex.quote(out)} new.csv predictions.csv")
