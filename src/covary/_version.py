"""Version of covary, and versions of its dependencies."""

__version__ = "0.7.0.dev0"

PACKAGES = ("jax", "numpy", "scipy", "scikit-learn", "pandas")


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of covary, Python and those of the packages that are installed; by default, covary's dependencies."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"covary": __version__, "python": platform.python_version()}
    for name in packages or PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
