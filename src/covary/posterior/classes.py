"""Class probabilities from the posteriors of latent functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from covary.likelihoods.bernoulli import Bernoulli
from covary.likelihoods.softmax import Softmax
from covary.posterior.base import AbstractPosterior
from covary.prediction import Spread


def class_probabilities(
    posteriors: Sequence[AbstractPosterior], latents: Sequence[Spread], average: str = "exact"
) -> np.ndarray:
    """Return the probability of every class (m, C), from the latent functions at m rows.

    The functions are those of all classes together, of two classes, or of each class against the rest; in the last case the
    probabilities are divided by their sum. See :meth:`covary.GPClassifier.predict_proba` for ``average``.
    """
    likelihoods = cast("list[Bernoulli]", [post.model.likelihood for post in posteriors])
    if len(latents) > 1:
        pairs = zip(likelihoods, latents, strict=True)
        p = np.stack([likelihood.probability(f.mean, f.variance, average) for likelihood, f in pairs], axis=1)
        p = np.maximum(p, np.finfo(float).tiny)
        return p / p.sum(1, keepdims=True)
    f, likelihood = latents[0], likelihoods[0]
    if isinstance(likelihood, Softmax):
        return likelihood.probabilities(f.mean, f.variance, average)
    # not 1 - p: small probabilities keep their digits
    return np.stack([likelihood.probability(sign * f.mean, f.variance, average) for sign in (-1, 1)], axis=1)
