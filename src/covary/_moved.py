"""Old names of modules that have moved: ``import covary.smoother`` gives the module ``covary.posterior.smoother``."""

import importlib
import sys

TYPE_CHECKING = False  # imports only modules that Python has already loaded: see the note in __init__
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

MOVED = {
    "components": "posterior.components",
    "paths": "posterior.paths",
    "smoother": "posterior.smoother",
    "updates": "inference.updates",
    "committee.sources": "tables.parquet",
    "diagnosis.record": "fits.checks",
    "export.parts": "families.gaussian_process.export",
    "gram.conditionals": "gram.vecchia.conditionals",
    "gram.diagnostics": "posterior.diagnostics",
    "gram.local": "gram.vecchia.local",
    "gram.neighbours": "gram.vecchia.neighbours",
    "gram.recursions": "gram.markov.recursions",
    "gram.state_space": "gram.markov.state_space",
    "inference.collapsed": "inference.svgp.collapsed",
    "inference.expected": "inference.svgp.expected",
    "inference.stochastic": "inference.svgp.stochastic",
    "inference.variational": "inference.svgp.variational",
    "inference.whitened": "inference.svgp.whitened",
    "optimise.clock": "optimise.base",
}


class Alias:
    """Finder and loader that returns the module under its new name."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """Return a spec for an old name. Python calls this last, if no file was found."""
        package, _, name = fullname.partition(".")
        return type(__spec__)(fullname, self) if package == "covary" and name in MOVED else None

    def create_module(self, spec: "ModuleSpec") -> "ModuleType":
        """Return the module itself, whose spec Python then replaces with that of the alias."""
        module = importlib.import_module(f"covary.{MOVED[spec.name.partition('.')[2]]}")
        module.__dict__["_spec"] = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """Restore the module's spec without executing it again."""
        module.__spec__ = module.__dict__.pop("_spec")


sys.meta_path.append(Alias())
