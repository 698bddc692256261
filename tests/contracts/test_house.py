"""The rules of the house, kept by machine: import order, public names, file lengths, a quiet import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "covary"

# top to bottom; a file imports only from above itself (front doors may import everything above them)
ORDER = [
    "_version",
    "_names",
    "_words",
    "_warn",
    "_checks",
    "_arguments",
    "_module",
    "_precision",
    "_threads",
    "_memory",
    "_write",
    "_read",
    "_scratch",
    "parameters",
    "distributions",
    "_pieces",
    "_keepers",
    "_cluster",
    "_dealing",
    "executors",
    "optimise.clock",
    "optimise.base",
    "optimise.lbfgs",
    "optimise.quasi_newton",
    "optimise",
    "data",
    "kernels.series",
    "kernels.distance",
    "kernels.host",
    "kernels.tiles",
    "kernels.authors",
    "kernels.base",
    "kernels.stationary",
    "kernels.periodic",
    "kernels.dot_product",
    "kernels.nonstationary",
    "kernels.wiener",
    "kernels.matern",
    "kernels.isotropic",
    "kernels.metric",
    "kernels.spectral",
    "kernels.combine",
    "kernels.structure",
    "kernels.networks",
    "kernels.varying",
    "kernels.warped",
    "kernels.processes",
    "kernels.categorical",
    "kernels.sphere",
    "kernels.parts",
    "kernels.spectrum",
    "kernels.features",
    "kernels.waves",
    "kernels.text",
    "kernels",
    "means.functions",
    "means.coordinates",
    "means.basis",
    "means",
    "sites",
    "likelihoods.quadrature",
    "likelihoods.steps",
    "likelihoods.probit",
    "likelihoods.outcomes",
    "likelihoods.differences",
    "likelihoods.base",
    "likelihoods.gaussian",
    "likelihoods.noise_basis",
    "likelihoods.rates",
    "likelihoods.student_t",
    "likelihoods.laplace",
    "likelihoods.poisson",
    "likelihoods.negative_binomial",
    "likelihoods.binomial",
    "likelihoods.gamma",
    "likelihoods.ordinal",
    "likelihoods.heteroscedastic",
    "likelihoods.averages",
    "likelihoods.bernoulli",
    "likelihoods.softmax",
    "likelihoods",
    "model",
    "gram.linalg",
    "gram.base",
    "gram.several",
    "gram.softmax",
    "gram.blocks",
    "gram.dense",
    "gram.diagnostics",
    "gram.subset",
    "gram.inducing",
    "gram.low_rank",
    "gram.neighbours",
    "gram.local",
    "gram.conditionals",
    "gram.vecchia",
    "gram.state_space",
    "gram.recursions",
    "gram.markov",
    "gram.traced",
    "gram",
    "prediction",
    "paths",
    "components",
    "posterior",
    "inference.base",
    "inference.separation",
    "inference.exact",
    "inference.modes",
    "inference.laplace",
    "inference.ep",
    "inference.whitened",
    "inference.expected",
    "inference.variational",
    "inference.collapsed",
    "inference.stochastic",
    "inference.svgp",
    "inference.condition",
    "inference",
    "smoother",
    "updates",
    "selection.objectives",
    "selection.left_out",
    "selection.starts",
    "selection.priors",
    "selection.progress",
    "selection.levels",
    "selection.journal",
    "selection.problem",
    "selection.search",
    "selection.stochastic",
    "selection.learn",
    "selection.closed_forms",
    "selection",
    "committee.rules",
    "committee.partition",
    "committee.ledger",
    "committee.sources",
    "committee.spool",
    "committee.shuffle",
    "committee.expert",
    "committee.held",
    "committee.experts",
    "committee.learning",
    "committee.bound",
    "committee.settings",
    "committee.left_out",
    "committee",
    "models.linear",
    "models.local_scale",
    "models",
    "datasets.frames",
    "datasets.shipped",
    "datasets.curves",
    "datasets.surfaces",
    "datasets.classes",
    "datasets.series",
    "datasets.clouds",
    "datasets.catalogue",
    "datasets",
    "metrics.scores",
    "metrics.decades",
    "metrics.classes",
    "metrics.curves",
    "metrics.decisions",
    "metrics.validation",
    "metrics",
    "plots.style",
    "plots.columns",
    "plots.fit",
    "plots.classes",
    "plots.held_out",
    "plots.predicted",
    "plots.calibration",
    "plots.relevance",
    "plots.dependence",
    "plots.components",
    "plots.evidence",
    "plots.kernel",
    "plots.history",
    "plots",
    "diagnosis.subject",
    "diagnosis.cavities",
    "diagnosis.foretold",
    "diagnosis.record",
    "diagnosis.cautious",
    "diagnosis.association",
    "diagnosis.figures",
    "diagnosis.errors",
    "diagnosis.classes",
    "diagnosis.fitting",
    "diagnosis.queries",
    "diagnosis.diagnose",
    "diagnosis",
    "report.words",
    "report.tables",
    "report.figures",
    "report.page",
    "report",
    "files",
    "export.formulas",
    "export.rules",
    "export.kernels",
    "export.parts",
    "export",
    "estimators.options",
    "estimators.cells",
    "estimators.column",
    "estimators.frames",
    "estimators.defaults",
    "estimators.given",
    "estimators.inputs",
    "estimators.tables",
    "estimators.streamed",
    "estimators.observed",
    "estimators.method",
    "estimators.summary",
    "estimators.entries",
    "estimators.dealt",
    "estimators.committees",
    "estimators.encoding",
    "estimators.arguments",
    "estimators.stored",
    "estimators.assessed",
    "estimators.base",
    "estimators.classifier",
    "estimators.regressor",
    "estimators",
    "",
    "cli.choices",
    "cli.words",
    "cli.doors",
    "cli.sheets",
    "cli.tables",
    "cli.classes",
    "cli.columns",
    "cli.targets",
    "cli.output",
    "cli.progress",
    "cli.facts",
    "cli.scores",
    "cli.model_file",
    "cli.shown",
    "cli.datasets",
    "cli.demo",
    "cli.answers",
    "cli.config",
    "cli.rows",
    "cli.report",
    "cli.crew",
    "cli.disk",
    "cli.fitting",
    "cli.fit",
    "cli.streamed",
    "cli.predict",
    "cli.info",
    "cli.export",
    "cli.options",
    "cli.app",
    "cli",
    "__main__",
]

LATE = {("kernels.base", "kernels.combine"), ("kernels.base", "kernels.dot_product")}  # operators name their own results


def module_name(path: Path) -> str:
    parts = list(path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "covary":
            inner = node.module.removeprefix("covary").removeprefix(".")
            for alias in node.names:
                deeper = f"{inner}.{alias.name}" if inner else alias.name
                found.add(deeper if deeper in ORDER else inner)
        elif isinstance(node, ast.Import):
            found |= {a.name.removeprefix("covary").removeprefix(".") for a in node.names if a.name.split(".")[0] == "covary"}
    return found


def test_every_file_has_its_place() -> None:
    assert {module_name(p) for p in SOURCE.rglob("*.py")} == set(ORDER)


def test_files_import_only_from_above() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        name = module_name(path)
        for other in imported(path):
            if ORDER.index(other) >= ORDER.index(name) and (name, other) not in LATE:
                wrong.append(f"{name} imports {other}")
    assert not wrong


def test_only_the_module_file_registers_pytrees_of_fields() -> None:
    """Nothing but ``_module.py`` would change if the base class did."""
    users = [p.name for p in SOURCE.rglob("*.py") if "register_pytree_with_keys" in p.read_text()]
    assert users == ["_module.py"]


def test_no_file_is_too_long() -> None:
    long = [
        f"{p.relative_to(ROOT)}: {n}"
        for d in ("src", "tests", "benchmarks")
        for p in (ROOT / d).rglob("*.py")
        if (n := len(p.read_text().splitlines())) > 600
    ]
    assert not long


def test_no_drawer_without_a_name() -> None:
    assert not [p for p in SOURCE.rglob("*.py") if p.stem in {"utils", "util", "misc", "common", "helpers", "contrib"}]


def test_public_names_are_the_snapshot() -> None:
    """Changing this list is a decision: add to it when a name becomes public."""
    import covary.distributions
    import covary.gram
    import covary.inference
    import covary.kernels
    import covary.likelihoods
    import covary.means
    import covary.metrics

    lines = [f"covary.{n}" for n in sorted(covary.__all__)]
    for module in (covary.kernels, covary.means, covary.likelihoods, covary.gram, covary.inference, covary.metrics):
        short = module.__name__
        lines += [
            f"{short}.{n}"
            for n in sorted(vars(module))
            if n[0] != "_" and not hasattr(vars(module)[n], "__path__") and type(vars(module)[n]).__name__ != "module"
        ]
    snapshot = Path(__file__).with_name("public_names.txt")
    assert lines == snapshot.read_text().splitlines()


def test_import_is_quiet() -> None:
    """``import covary`` changes no JAX flag and brings in none of the heavy front-door packages."""
    code = """
import jax, sys
before = dict(jax.config.values)
import covary
assert dict(jax.config.values) == before, "a JAX flag changed"
heavy = [m for m in ("sklearn", "pandas", "matplotlib", "numpyro", "dask", "typer", "equinox") if m in sys.modules]
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_readme_exists() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"make {target}" in readme
        assert f"\n{target}:" in makefile
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) < 60


def test_pinned_versions_name_no_index() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert "==" in line
        assert "//" not in line
        assert not line.startswith("-")
