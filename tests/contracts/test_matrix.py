"""Likelihood × inference × gram: every cell agrees with the dense result or raises an error; the docs print the table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covary import GP, Data, Model, condition, log_evidence, log_evidence_and_grad
from covary._checks import CovaryError
from covary.committee import Committee
from covary.gram import Dense, LowRank, Markov, Vecchia
from covary.inference import EP, SVGP, Exact, Laplace
from covary.kernels import Matern52
from covary.likelihoods import (
    Bernoulli,
    Binomial,
    DoubleExponential,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Softmax,
    StudentT,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "matrix.md"
RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=20)
COUNTS = RNG.poisson(np.exp(Y)).astype(float)
KERNEL = 1.2 * Matern52(lengthscale=0.8)

LIKELIHOODS: dict[str, tuple[Any, np.ndarray]] = {
    "Gaussian": (Gaussian(0.1), Y),
    "StudentT": (StudentT(0.2), Y + 5.0 * (np.arange(20) == 3)),
    "DoubleExponential": (DoubleExponential(0.2), Y),
    "HeteroscedasticGaussian": (HeteroscedasticGaussian(0.1), Y),
    "Bernoulli, probit": (Bernoulli("probit"), np.sign(Y)),
    "Bernoulli, logit": (Bernoulli("logit"), np.sign(Y)),
    "Softmax": (Softmax(3), np.digitize(Y, [-0.4, 0.4]).astype(float)),
    "Ordinal": (Ordinal.of(3), np.digitize(Y, [-0.4, 0.4]).astype(float)),
    "Binomial": (Binomial(), np.stack([np.minimum(COUNTS, 4), np.full(20, 4.0)], axis=1)),
    "Poisson": (Poisson(), COUNTS),
    "NegativeBinomial": (NegativeBinomial(0.3), COUNTS),
    "Gamma": (Gamma(3.0), np.exp(Y)),
}
INFERENCES: dict[str, Any] = {"Exact": Exact(), "Laplace": Laplace(), "EP": EP()}
GRAMS: dict[str, Any] = {
    "Dense": Dense(),
    "FITC": LowRank(X, jitter=0.0),
    "VFE": LowRank(X, rule="vfe", jitter=0.0),
    "Vecchia": Vecchia(19),
    "Markov": Markov(),
    "Committee": Committee(1, rule="bcm"),
}
INPUTS = {"Markov": X[:, :1]}  # one column

NO_EXACT = "use inference=Laplace() or EP()"
NO_CURVATURE = "has no curvature in f for Laplace's method to use"
MANY = "latent functions; use inference=Laplace()"
VFE_ONLY = "rule 'vfe' requires a Gaussian likelihood"
SIGNED = "site precisions are negative"
ONE_FUNCTION = "are not supported; use gram=Dense()"
NO_SITES = "are not supported; use gram=LowRank(...) or gram=Dense()"
SINGLE = [g for g in GRAMS if g not in ("Dense", "Committee")]  # grams for one latent function
REFUSED = {
    **{(lik, inf, "VFE"): VFE_ONLY for lik in LIKELIHOODS for inf in ("Laplace", "EP")},
    **{(lik, "Exact", g): NO_EXACT for lik in LIKELIHOODS if lik != "Gaussian" for g in GRAMS},
    **{("DoubleExponential", "Laplace", g): NO_CURVATURE for g in GRAMS},
    **{(lik, inf, "Vecchia"): NO_SITES for lik in LIKELIHOODS for inf in ("Laplace", "EP") if lik != "DoubleExponential"},
    ("DoubleExponential", "EP", "Vecchia"): NO_SITES,
    **{(lik, "EP", g): MANY for lik in ("Softmax", "HeteroscedasticGaussian") for g in GRAMS},
    **{(lik, "Laplace", g): ONE_FUNCTION for lik in ("Softmax", "HeteroscedasticGaussian") for g in SINGLE},
    **{("StudentT", inf, g): SIGNED for inf in ("Laplace", "EP") for g in ("FITC", "Markov")},
}
WORKING = [(lik, inf, "Dense") for lik in LIKELIHOODS for inf in INFERENCES if (lik, inf, "Dense") not in REFUSED]
CELLS = [(lik, inf, g) for lik in LIKELIHOODS for inf in INFERENCES for g in GRAMS]


@pytest.mark.parametrize("cell", CELLS, ids=" × ".join)
def test_cell(cell: tuple[str, str, str]) -> None:
    """With inducing inputs at the data every gram equals the dense one; unsupported combinations raise an error."""
    likelihood, y = LIKELIHOODS[cell[0]]
    kernel: Any = (KERNEL, KERNEL) if likelihood.latents == 2 else KERNEL
    inputs = INPUTS.get(cell[2], X)
    model, data = Model(GP(kernel), likelihood=likelihood), Data(inputs, y)
    inference, gram = INFERENCES[cell[1]], GRAMS[cell[2]]
    if cell in REFUSED:
        with pytest.raises(CovaryError) as caught:
            log_evidence(model, data, inference=inference, gram=gram)
        several = ONE_FUNCTION in str(caught.value) or NO_SITES in str(caught.value)
        assert REFUSED[cell] in str(caught.value) or (likelihood.latents > 1 and several)
        return
    value, gradient = log_evidence_and_grad(model, data, inference=inference, gram=gram)
    expected, slope = log_evidence_and_grad(model, data, inference=inference)
    assert np.isfinite(value)
    assert value == pytest.approx(expected, abs=1e-7)
    ours, theirs = (np.concatenate([np.ravel(v) for v in _leaves(g)]) for g in (gradient, slope))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    a, b = (condition(model, data, inference=inference, gram=g).predict(inputs[:3]).f for g in (gram, Dense()))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-6)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_variational_column(name: str) -> None:
    """SVGP supports every likelihood: a bound below EP's evidence, equal to the exact one under Gaussian noise."""
    likelihood, y = LIKELIHOODS[name]
    kernel: Any = (KERNEL, KERNEL) if likelihood.latents == 2 else KERNEL
    model, data = Model(GP(kernel), likelihood=likelihood), Data(X, y)
    posterior = condition(model, data, inference=SVGP(), gram=LowRank(X))
    f = posterior.predict(X + 0.1).f
    assert np.isfinite(f.mean).all()
    own = f.variance if f.variance.ndim == 1 else np.einsum("ncc->nc", f.variance)
    assert (own > 0).all()
    if name == "Gaussian":
        assert posterior.log_evidence == pytest.approx(log_evidence(model, data), abs=1e-6)
    elif (name, "EP", "Dense") not in REFUSED:
        close = log_evidence(model, data, inference=EP())
        assert close - 1.0 < posterior.log_evidence < close + 0.01
    else:
        assert np.isfinite(posterior.log_evidence)


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree_util.tree_leaves(tree)


@pytest.mark.parametrize(("name", "inference"), [c[:2] for c in WORKING if c[1] != "Exact"])
def test_gradients_are_differences_for_every_likelihood(name: str, inference: str) -> None:
    """Derivatives for kernel, mean and likelihood parameters agree with central differences to 1e-5."""
    import jax

    likelihood, y = LIKELIHOODS[name]
    kernel: Any = (KERNEL, 0.7 * Matern52(lengthscale=1.5)) if likelihood.latents == 2 else KERNEL
    from covary.means import Constant

    model, data = Model(GP(kernel, mean=Constant(0.2)), likelihood=likelihood), Data(X, y)
    how = {"Laplace": Laplace(tolerance=1e-12), "EP": EP(tolerance=1e-12, max_sweeps=500)}[inference]
    _, gradient = log_evidence_and_grad(model, data, inference=how)
    leaves, shape = jax.tree_util.tree_flatten(model)
    slopes = jax.tree_util.tree_leaves(gradient)
    for at, leaf in enumerate(leaves):
        for i in np.ndindex(np.shape(leaf)):
            step = 1e-4 * max(1e-2, abs(float(np.asarray(leaf)[i])))
            values = []
            for sign in (1, -1):
                moved = np.array(leaf, np.float64)
                moved[i] += sign * step
                other = jax.tree_util.tree_unflatten(shape, [*leaves[:at], moved, *leaves[at + 1 :]])
                values.append(log_evidence(other, data, inference=how))
            difference = (values[0] - values[1]) / (2 * step)
            assert float(np.asarray(slopes[at])[i]) == pytest.approx(difference, rel=1e-5, abs=1e-5), (at, i)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_with_gaussian_noise_every_inference_is_exact(inference: Any) -> None:
    model, data = Model(GP(KERNEL), likelihood=Gaussian(0.1)), Data(X, Y)
    value, gradient = log_evidence_and_grad(model, data, inference=inference)
    exact, slope = log_evidence_and_grad(model, data)
    assert value == pytest.approx(exact, abs=1e-8)
    assert float(gradient.kernel.kernel.lengthscale) == pytest.approx(float(slope.kernel.kernel.lengthscale), abs=1e-7)
    a, b = (condition(model, data, inference=i).predict(X[:3] + 0.1).f for i in (inference, Exact()))
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-7)
    np.testing.assert_allclose(a.variance, b.variance, atol=1e-7)


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["laplace", "ep"])
def test_known_noise_is_not_dropped_silently(inference: Any) -> None:
    model = Model(GP(KERNEL), likelihood=Gaussian(0.1))
    with pytest.raises(CovaryError, match="known noise variances or merged rows"):
        log_evidence(model, Data(X, Y, noise_variance=np.full(20, 0.1)), inference=inference)


@pytest.mark.parametrize("name", [n for n in LIKELIHOODS if n != "Gaussian"])
def test_a_weight_is_a_number_of_repetitions(name: str) -> None:
    """Weights are powers of the likelihood: a row of weight 2 is the row twice, for every likelihood and inference."""
    likelihood, y = LIKELIHOODS[name]
    kernel: Any = (KERNEL, KERNEL) if likelihood.latents == 2 else KERNEL
    model = Model(GP(kernel), likelihood=likelihood)
    weight = np.where(np.arange(20) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(20), weight.astype(int))
    for inference in ("Laplace", "EP"):
        if (name, inference, "Dense") in REFUSED:
            continue
        if inference == "EP" and name == "StudentT":
            continue  # EP's sites of a heavy-tailed row of weight 2 differ from those of two separate rows
        how = INFERENCES[inference]
        weighted = condition(model, Data(X, y, None, weight), inference=how)
        repeated = condition(model, Data(X[twice], y[twice]), inference=how)
        tolerance = 1e-7 if inference == "Laplace" else 2e-2
        assert weighted.log_evidence == pytest.approx(repeated.log_evidence, abs=tolerance, rel=tolerance)
        a, b = weighted.predict(X + 0.1).f, repeated.predict(X + 0.1).f
        np.testing.assert_allclose(a.mean, b.mean, atol=max(1e-6, tolerance))


def _page() -> str:
    lines = [
        "# Supported combinations",
        "",
        "Every likelihood with every inference method and gram. A dot marks a supported combination: evidence, its gradient",
        "for all parameters, and predictions. A number marks an unsupported one and refers to the reasons below the table.",
        "The table is generated by `tests/contracts/test_matrix.py`, which runs every cell.",
        "",
    ]
    heads = [*(f"{inf} · {g}" for inf in INFERENCES for g in GRAMS), "SVGP · low rank"]
    lines += ["| likelihood | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    reasons: dict[str, int] = {}
    for lik in LIKELIHOODS:
        cells = []
        for inf in INFERENCES:
            for g in GRAMS:
                if (lik, inf, g) not in REFUSED:
                    cells.append("●")
                else:
                    cells.append(str(reasons.setdefault(REFUSED[lik, inf, g], len(reasons) + 1)))
        lines.append(f"| {lik} | " + " | ".join([*cells, "●"]) + " |")
    explained = {
        NO_EXACT: "Only Gaussian noise has an exact posterior.",
        VFE_ONLY: "The variational bound of a low-rank gram is implemented for Gaussian noise; `rule='fitc'` works.",
        SIGNED: "A likelihood that is not log-concave may have negative site precisions, which only the dense gram supports.",
        NO_CURVATURE: "The log density is piecewise linear and lacks the curvature that Laplace's method needs. EP works.",
        MANY: "EP supports one latent function; several classes by EP are fitted one-vs-rest.",
        ONE_FUNCTION: "Likelihoods with several latent functions need the dense gram or SVGP.",
        NO_SITES: "Vecchia's approximation is for Gaussian noise only.",
    }
    lines += ["", *(f"{number}. {explained[reason]}" for reason, number in reasons.items()), ""]
    return "\n".join(lines)


def test_the_docs_print_this_table() -> None:
    """Run with COVARY_WRITE_DOCS=1 to update the page."""
    if os.environ.get("COVARY_WRITE_DOCS"):
        PAGE.write_text(_page())
    assert PAGE.read_text() == _page()
