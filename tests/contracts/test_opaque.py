"""What a fitted model contains is known to its family only.

All other code calls the methods of the family. It neither inspects attributes of estimators and states nor distinguishes
between families; this is checked in the syntax tree of every file. ``ALLOWED`` lists the accesses to other objects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from covary.fits import FAMILIES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "covary"
CONSUMERS = {"fits", "files", "plots", "diagnosis", "report", "export", "cli"}  # use fitted models of any family
OPEN = {"estimators", "metrics"}  # may access attributes of estimators
ASKING = {"getattr", "hasattr", "setattr", "delattr"}
INSPECTING = {
    *ASKING,
    *("vars", "dir", "eval", "exec", "getmembers", "getattr_static", "attrgetter", "methodcaller"),
    *("__dict__", "__getattribute__", "AttributeError"),
}
PREFIXES = {"startswith", "endswith", "removeprefix", "removesuffix"}
FITTED = {"estimator", "model", "fit", "part", "regressor", "classifier"}  # names of variables with a fitted model
NAMES = frozenset(FAMILIES)
ALLOWED = {  # expressions by file, none of which concerns the content of a fitted model
    "cli/config.py": {"getattr(error, 'strerror', None)", "getattr(s, name)", "hasattr(value, 'isoformat')"},
    "cli/demo.py": {"from covary.estimators.regressor import GPRegressor", "model.posterior_", "model.target_names_"},
    "cli/errors.py": {"getattr(sys.stderr, 'encoding', None)", "suppress(AttributeError, ValueError, OSError)"},
    "cli/fit.py": {"getattr(s, name)"},
    "cli/info.py": {"hasattr(os, 'sched_getaffinity')"},
    "cli/options.py": {"'gaussian_process'", "family != taking.family", "getattr(self, name)", "self.family != DEFAULT"},
    "cli/output.py": {"getattr(sys.stdout, 'buffer', None)", "hasattr(value, 'tolist')"},
    "export/formulas.py": {"family == 'exponential'"},  # of kernels
    "export/kernels.py": {"getattr(k, field)", "hasattr(np, node.attr)", "vars(self.kernel)"},
    "export/rules.py": {
        "getattr(X, 'column_names', getattr(X, 'columns', X))",
        "getattr(X, 'columns', X)",
        "hasattr(X, 'columns')",
    },
    "files/__init__.py": {
        "AttributeError",
        "getattr(importlib.import_module(module), name, None)",
    },
    "files/pages.py": {
        "'gaussian_process'",
        "fit.family != OLDEST",
        "getattr(function, '__name__', None)",
        "getattr(part, f.name)",
    },
    "fits/checks.py": {"getattr(c, k)"},
    "fits/fit.py": {"model.feature_names_in_", "model.n_features_in_"},  # of an estimator that is being restored
    "plots/evidence.py": {"getattr(post.bound, 'gram', used)"},
    "plots/fit.py": {"getattr(likelihood, 'link', '')"},
    "plots/source.py": {"getattr(kernel, f.name)"},
    "report/page.py": {"vars(page)"},
}


def inspected(tree: ast.Module) -> Iterator[str]:
    """Yield what is forbidden in code that uses fitted models: the call, comparison or name."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        around = parents.get(node, node)
        if name in INSPECTING:
            yield ast.unparse(around if isinstance(around, ast.Call) else node)
        elif isinstance(node, ast.Attribute):
            fitted = name.endswith("_") and not name.startswith("_") and name != "fit_"
            if fitted or name == "state" or (name in PREFIXES and is_family(node.value)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            if names_family(node) or any(alias.name in INSPECTING for alias in node.names):
                yield ast.unparse(node)
        elif isinstance(node, ast.Constant):
            if node.value in NAMES and not isinstance(around, ast.Expr):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(map(is_family, sides)) and not isinstance(node.ops[0], ast.Is | ast.IsNot):
                yield ast.unparse(node)
        elif isinstance(node, ast.Match) and is_family(node.subject):
            yield ast.unparse(node.subject)


def names_family(node: ast.Import | ast.ImportFrom) -> bool:
    """Return whether a statement imports a family, or the class of an estimator."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return any(name.startswith(("covary.families.", "covary.estimators")) for name in names)


def is_family(node: ast.AST) -> bool:
    """Return whether an expression is the name of the family of a fit."""
    text = ast.unparse(node)
    return text.endswith((".family", "family.name", "family_of(fit).name")) or text == "family"


def test_fitted_models_are_opaque_outside_their_family() -> None:
    wrong = []
    for path in (path for name in sorted(CONSUMERS) for path in sorted((SOURCE / name).rglob("*.py"))):
        place = path.relative_to(SOURCE).as_posix()
        found = set(inspected(ast.parse(path.read_text("utf-8")))) - ALLOWED.get(place, set())
        wrong += [f"{place}: {text}" for text in sorted(found)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "hasattr(fit.state, 'parts')",
        "getattr(loaded, 'kernel')",
        "vars(model)",
        "model.__dict__['kernel_']",
        "from operator import attrgetter",
        "operator.attrgetter('kernel_')(model)",
        "builtins.getattr(model, 'kernel')",
        "ask = getattr",
        "getattr(part.model, 'kernel')",
        "try:\n    model.kernel\nexcept AttributeError:\n    pass",
        "try:\n    model.kernel\nexcept (KeyError, AttributeError):\n    pass",
        "with suppress(AttributeError):\n    model.kernel",
        "model.posterior_",
        "isinstance(fit.state, Processes)",
        "fit.state.first",
        "fit.family == 'gaussian_process'",
        "other != fit.family",
        "fit.family in KNOWN",
        "fit.family.startswith('gauss')",
        "family_of(fit).name == KNOWN",
        "{'gaussian_process': draw}[fit.family]",
        "match fit.family:\n    case _:\n        pass",
        "from covary.families.gaussian_process.processes import Processes",
        "import covary.estimators.regressor",
        "object.__getattribute__(model, 'kernel')",
        "inspect.getmembers(model)",
    ],
)
def test_what_is_forbidden_is_found(code: str) -> None:
    assert list(inspected(ast.parse(code)))


def test_what_is_allowed_is_not_found() -> None:
    code = (
        "'''gaussian_process'''\nfamily_of(fit).predict(fit, x)\nfit.family\nmodel.fit_\nfamily is None\nlen(fit.target) == 1"
    )
    assert not list(inspected(ast.parse(code)))


# all other packages -----------------------------------------------------------------------------------------------


def attributes_accessed(path: Path) -> list[str]:
    """Return calls of ``getattr`` and similar functions on a fitted model, or for the name of a fitted attribute."""
    found, own = [], path.relative_to(SOURCE).parts[0] == "families"
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING):
            continue
        thing, name = node.args[0], node.args[1]
        text = name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
        if (isinstance(thing, ast.Name) and thing.id == "self") or ast.unparse(name) == "f.name":
            continue  # an attribute of the object itself, or the fields of a record in turn
        fitted = text.endswith("_") and not text.startswith("__")
        used = text in {"_location", "_scale", "get_params"} or text.startswith("predict")
        if fitted or used or (own and isinstance(thing, ast.Name) and thing.id in FITTED):
            found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node)}")
    return found


def test_no_package_asks_an_estimator_for_attributes() -> None:
    owners = {path: path.relative_to(SOURCE).parts[0] for path in sorted(SOURCE.rglob("*.py"))}
    found = [attributes_accessed(path) for path, owner in owners.items() if owner not in OPEN | CONSUMERS]
    wrong = [text for texts in found for text in texts]
    assert not wrong, "\n".join(wrong)
