"""Architecture rules: import order of packages, public names, length of files, side effects of the import."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import covary

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "covary"

# top to bottom: a package imports only from packages above it; within a package any import is allowed
PACKAGES = [
    *(
        "_version",
        "_types",
        "_moved",
        "_names",
        "_words",
        "_errors",
        "_families",
        "_warn",
        "_checks",
        "_arguments",
        "_module",
        "_write",
        "_precision",
        "_threads",
    ),
    *("_memory", "_read", "_scratch"),
    *("parameters", "distributions", "metrics", "executors", "optimise"),
    # the core, in the order of the data flow
    *("data", "tables", "kernels", "means", "sites", "likelihoods", "model", "gram", "prediction", "posterior", "inference"),
    *("selection", "models", "committee"),
    # uses of a fitted model
    *("fits", "files", "plots", "diagnosis", "report", "export", "datasets", "families"),
    # user interfaces
    *("estimators", "", "cli", "__main__"),
]


def package_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imported(path: Path) -> set[str]:
    """Return the packages that a file imports from, at any level of the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "covary" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, inner = name.partition(".")
            if package == "covary":
                part = inner.partition(".")[0]
                found.add(part if part in PACKAGES else "")
    return found


def test_every_file_belongs_to_a_listed_package() -> None:
    assert {package_of(p) for p in SOURCE.rglob("*.py")} == set(PACKAGES)


def test_packages_import_only_from_packages_above_them() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        own = package_of(path)
        for other in imported(path) - {own}:
            if PACKAGES.index(other) >= PACKAGES.index(own) and (own, other) != ("", "_moved"):
                wrong.append(f"{path.relative_to(SOURCE)} imports {other or 'covary'}")
    assert not wrong, "\n".join(sorted(wrong))


def test_only_the_module_file_registers_pytrees_of_fields() -> None:
    """Only ``_module.py`` would have to change if the base class changed."""
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


def sizes() -> dict[str, tuple[int, int, int]]:
    """Return the number of files, the lines, and the lines of the longest file, of each package and of all."""
    lines: dict[str, list[int]] = {}
    for path in SOURCE.rglob("*.py"):
        parts, count = path.relative_to(SOURCE).parts, len(path.read_text().splitlines())
        for name in (f"`{parts[0]}/`" if parts[1:] else "(single files)", "all"):
            lines.setdefault(name, []).append(count)
    return {name: (len(each), sum(each), max(each)) for name, each in lines.items()}


def test_the_size_table_of_the_walk_agrees_with_the_code() -> None:
    found, wrong = sizes(), []
    walk = (ROOT / "docs" / "contributing" / "walk.md").read_text()
    rows = re.findall(r"^\| (\S+/`|\(single files\)|all) \| (\d+) \| ([\d,]+) \| (\d+) \| [\d,–]+ \|$", walk, re.MULTILINE)
    assert {name for name, *_ in rows} == set(found)
    for name, *numbers in rows:
        files, *lengths = (int(n.replace(",", "")) for n in numbers)
        if files != found[name][0] or any(abs(a - b) > 0.05 * b for a, b in zip(lengths, found[name][1:], strict=True)):
            wrong.append("| {} | {} | {:,} | {} |".format(name, *found[name]))
    assert not wrong, "\n".join(["write:", *wrong])


def test_user_interfaces_are_thin() -> None:
    found = sizes()
    assert found["`estimators/`"][1] <= 1500
    assert found["`cli/`"][1] <= 3000


def test_no_catch_all_modules() -> None:
    assert not [p for p in SOURCE.rglob("*.py") if p.stem in {"utils", "util", "misc", "common", "helpers", "contrib"}]


def test_public_names_are_the_snapshot() -> None:
    """Adding a public name is a deliberate decision: add it to the list as well."""
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
    snapshot = Path(__file__).with_name("public_names.txt").read_text().split("\n\n")[0]
    assert lines == snapshot.splitlines()


def found(name: str) -> object:
    """Return the object with a dotted name."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


def test_previously_documented_names_import() -> None:
    """Every dotted name in README, docs, examples and coverage.csv of version 0.7 can still be imported."""
    for name in Path(__file__).with_name("public_names.txt").read_text().split("\n\n")[1].split():
        found(name)


def test_moved_modules_import_from_their_old_places() -> None:
    from covary._moved import MOVED

    for old, new in MOVED.items():
        assert importlib.import_module(f"covary.{old}") is importlib.import_module(f"covary.{new}")


def test_documented_names_import() -> None:
    """Every dotted name in the current README, docs and examples can be imported."""
    guides = ROOT / "docs" / "contributing"  # these mention names that the reader adds
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    texts = [path for path in texts if path.parent != guides]
    missing = []
    for path in texts:
        for name in set(re.findall(r"\bcovary(?:\.[A-Za-z_]\w*)+", path.read_text())):
            head = name.split(".")[1]
            if head in dir(covary) or (SOURCE / head).is_dir() or (SOURCE / f"{head}.py").is_file():
                try:
                    found(name)
                except AttributeError:
                    missing.append(f"{path.name}: {name}")
    assert not missing


def test_import_has_no_side_effects() -> None:
    """``import covary`` changes no JAX flag and does not import scikit-learn, pandas or other heavy packages."""
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
