"""What is diagnosed: the posteriors of one fit, how they were learned, and what their rows and columns are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covary.likelihoods.gaussian import Gaussian
from covary.parameters import parameters
from covary.plots.columns import coded_columns
from covary.selection.starts import lengthscale_paths


@dataclass(frozen=True)
class Subject:
    """One fit, as the diagnosis sees it.

    ``posteriors`` holds one, or one for each class against the rest (``parts`` then names them); ``learned`` and ``priors``
    go with them, ``weak`` says that the priors are the default ones. Observations in the user's units are
    ``location + scale · y``. ``classes`` are the labels of a classification, None otherwise;
    ``inference`` is how the posterior was found, by name.
    """

    posteriors: tuple[Any, ...]
    learned: tuple[Any, ...]
    priors: tuple[dict[str, Any], ...]
    columns: tuple[str, ...]
    targets: tuple[str, ...] = ("y",)
    parts: tuple[str, ...] = ("",)
    weak: bool = True
    location: Any = 0.0
    scale: Any = 1.0
    classes: np.ndarray | None = None
    inference: str = ""

    @property
    def post(self) -> Any:
        """The first posterior; all share their inputs."""
        return self.posteriors[0]

    @property
    def likelihood(self) -> Any:
        """What lies between the function and the observations."""
        return self.post.model.likelihood

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian and of one size."""
        return isinstance(self.likelihood, Gaussian)

    @property
    def x(self) -> np.ndarray:
        """The training inputs (n, d)."""
        return np.asarray(self.post.data.X.x, np.float64)

    @property
    def discrete(self) -> bool:
        """Whether observations are whole numbers: counts, levels."""
        return self.likelihood.support in ("counts", "labels")

    @property
    def functions(self) -> list[str]:
        """What latent functions with a kernel each are of: classes, or the function and its noise; none of a single one."""
        if not isinstance(self.post.model.kernel, tuple) or len(self.posteriors) > 1:
            return []
        return ["function", "noise"] if self.classes is None else [str(c) for c in self.classes]

    @property
    def coded(self) -> set[int]:
        """The columns that hold codes of categories, which have no order."""
        return {c for post in self.posteriors for c in coded_columns(post.model.prior.kernel, range(len(self.columns)))}

    def lengths(self) -> np.ndarray:
        """The distance that matters in each column: its shortest length-scale, or its spread where it has none."""
        x = self.x
        spread = x.std(0)
        out = np.full(x.shape[1], np.inf)
        for post in self.posteriors:
            known = parameters(post.model)
            for path, columns in lengthscale_paths(post.model.prior.kernel, x.shape[1]).items():
                out[columns] = np.minimum(out[columns], np.asarray(known[path].value, np.float64))
        found = np.isfinite(out)
        if not found.all():
            out = np.where(found, out, spread)
        return np.where(out > 0, out, 1.0)
