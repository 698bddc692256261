"""The report in words: three sentences, what each part of the kernel says, numbers a person can read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from covary._checks import CovaryError
from covary._words import counted
from covary.components import term_names, terms
from covary.diagnosis import Diagnosis, Foretold, Subject
from covary.diagnosis.cautious import cautious, too_wide
from covary.kernels.base import Power, Product, Scaled, Sum
from covary.kernels.combine import Columns
from covary.plots.components import columns_of

SMOOTH = {
    "SquaredExponential": "a very smooth function",
    "Matern52": "a smooth function",
    "Matern32": "a fairly smooth function",
    "Matern12": "a rough function",
    "Matern": "a function whose smoothness was learned",
    "GammaExponential": "a function whose smoothness was learned",
    "RationalQuadratic": "a smooth function with variation at many scales",
    "Hamming": "differences between categories",
    "Exchangeable": "differences between categories",
    "Linear": "a linear trend",
    "Polynomial": "a polynomial trend",
    "Constant": "a constant offset",
    "Periodic": "a pattern that repeats",
    "Cosine": "a pure wave",
    "SpectralMixture": "repeating patterns of several periods",
    "Wiener": "a random walk",
    "IntegratedWiener": "a smooth random walk",
    "NeuralNetwork": "a function with steps that level off",
    "ArcCosine": "a function of a neural network's kind",
}
METHODS = {
    "markov": "by an exact recursion along it (markov)",
    "vecchia": "each row given its nearest neighbours (vecchia)",
    "low_rank": "through inducing inputs (low_rank)",
    "svgp": "through inducing inputs, in batches (svgp)",
    "subset": "from some of them (subset)",
}
LIKELIHOODS = {
    "Gaussian": "Gaussian noise of one size",
    "StudentT": "Student-t noise, which bears outliers",
    "DoubleExponential": "Laplace noise, which bears outliers",
    "HeteroscedasticGaussian": "Gaussian noise whose size varies with the inputs",
    "Poisson": "Poisson counts",
    "NegativeBinomial": "counts that scatter more than Poisson's",
    "Binomial": "successes of so many trials",
    "Gamma": "positive observations of constant relative scatter",
    "Ordinal": "ordered levels",
    "Bernoulli": "two classes",
    "Softmax": "several classes",
}


def number(value: float, digits: int = 4) -> str:
    """A number in so many digits, thousands apart from ten thousand on: years stay years.

    Examples
    --------
    >>> number(12345.678), number(1864.0), number(0.00012), number(3.0), number(-0.5), number(1.0916, 3)
    ('12,346', '1864', '0.00012', '3', '−0.5', '1.09')
    >>> number(284.3, 2)
    '280'
    """
    if not np.isfinite(value):
        return "–" if np.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    size = abs(value)
    if 1000 <= size < 1e7:
        text = f"{value:,.0f}" if size >= 1e4 else f"{value:.0f}"
    elif size >= 1e7 or size < 1e-4:
        text = f"{value:.3g}"
    elif size >= 10**digits:
        text = f"{float(f'{value:.{digits}g}'):.0f}"
    else:
        text = f"{value:.{digits}g}"
    return text.replace("-", "−")


def beside(value: float, error: float) -> str:
    """A number and its error, in as many decimals as the error has two digits of.

    Examples
    --------
    >>> beside(1.8442, 1.4712), beside(1375.2, 283.0), beside(-0.5, 0.0), beside(12.3, 0.00012)
    ('1.8 ± 1.5', '1375 ± 283', '−0.5 ± 0', '12.30000 ± 0.00012')
    """
    if not (np.isfinite(error) and error >= 1e-5 and max(abs(value), error) < 1e7):
        return f"{number(value)} ± {number(error, 2)}"
    places = max(0, 1 - int(np.floor(np.log10(error))))
    apart = "," if max(abs(value), error) >= 1e4 else ""
    return f"{value:{apart}.{places}f} ± {error:{apart}.{places}f}".replace("-", "−")


def percent_of(share: float) -> str:
    """A share in per cent, rounded, but never to all of it.

    Examples
    --------
    >>> percent_of(0.812), percent_of(0.99698), percent_of(1.0), percent_of(-0.1), percent_of(1 - 1e-9)
    ('81 %', '99.7 %', '100 %', '0 %', '99.9999 %')
    """
    share = max(share, 0.0)
    if share < 0.99 or share >= 1:
        return f"{100 * min(share, 1.0):.0f} %"
    places = min(4, int(np.floor(-np.log10(1 - share) + 1e-9)) - 1)
    return f"{min(100 * share, 100 - 10.0**-places):.{places}f} %"


def short_names(names: tuple[str, ...], most: int = 28) -> tuple[str, ...]:
    """Names that fit beside a figure, still different from each other.

    Examples
    --------
    >>> short_names(("age", "temperature of the water", "temperature of the air"), 12)
    ('age', 'temperature…', 'temperatu… 2')
    """
    out: list[str] = []
    for name in names:
        cut = name if len(name) <= most else f"{name[: most - 1]}…"
        number = 2
        while cut in out:
            cut, number = f"{name[: most - 3]}… {number}", number + 1
        out.append(cut)
    return tuple(out)


def listed(names: list[str], most: int = 4) -> str:
    """A few names as people write them.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdefg"))
    ('a', 'a, b and c', 'a, b, c, d and 3 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def sentences(subject: Subject, diagnosis: Diagnosis, relevance: Any, method: Any) -> list[str]:
    """What was fitted, how good it is, and whether to trust it."""
    seen = diagnosis.foretold
    return [_fitted(subject, relevance, method), _quality(subject, seen), _trust(subject, diagnosis)]


def _fitted(subject: Subject, relevance: Any, method: Any) -> str:
    data, d = subject.post.data, len(subject.columns)
    rows = data.rows if data.weight is None else float(data.weight.sum())
    count = counted(round(rows), "row")
    what = listed(list(subject.targets))
    if subject.classes is not None:
        what += f", one of {len(subject.classes)} classes ({listed([str(c) for c in subject.classes], 6)}),"
    from_what = listed(list(subject.columns)) if d <= 4 else f"{d} inputs"
    out = f"A Gaussian process learned {what} from {from_what} in {count}"
    out += f", {METHODS.get(method.name, f'by the method {method.name}')}" if method.name not in ("exact", "Dense") else ""
    if d > 1 and relevance is not None and relevance.values.max() > 0:
        most = [n for n, v in zip(relevance.names, relevance.values, strict=True) if v >= 0.25 * relevance.values[0]][:3]
        if len(most) < d:
            out += f"; {listed(most)} matter{'s' * (len(most) == 1)} most"
    return f"{out}."


def _quality(subject: Subject, seen: Foretold | None) -> str:
    if seen is None or not len(seen):
        return "How good it is cannot be told from these rows."
    how = {"leave-one-out": "each row foretold by the others", "new rows": "rows it had not seen"}.get(
        seen.kind, "its own rows"
    )
    if seen.p is not None:
        codes = seen.y[:, 0].astype(int)
        right = float((seen.p.argmax(1) == codes).mean())
        base = float(np.bincount(codes).max() / len(codes))
        return (
            f"It names {100 * right:.1f} % of the rows right ({how}); always naming the commonest class would be right in "
            f"{100 * base:.1f} %."
        )
    spread = seen.y.std(0)
    error = np.sqrt(((seen.y - seen.mean) ** 2).mean(0))
    inside = 100 * float((np.abs(seen.pit - 0.5) <= 0.475).mean())
    explained = [percent_of(1 - (e / s) ** 2) if s > 0 else "nothing" for e, s in zip(error, spread, strict=True)]
    if len(subject.targets) == 1:
        said = (
            f"It explains {explained[0]} of the variance of {subject.targets[0]} with a typical error of {number(error[0], 3)}"
        )
    else:
        each = [f"{e} of {t}" for e, t in zip(explained, subject.targets, strict=True)]
        said = f"It explains {listed(each)}"
    return f"{said} ({how}), and its 95 % intervals hold {inside:.1f} %."


def _trust(subject: Subject, diagnosis: Diagnosis) -> str:
    found = diagnosis.warnings
    made = sum(check.verdict != "not available" for check in diagnosis.checks)
    if not found:
        what = "error bars" if subject.classes is None else "probabilities"
        unfinished = learning_note(subject)
        if unfinished:
            return f"None of {made} checks speaks against it, but {unfinished[0].lower()}{unfinished[1:]}"
        seen = diagnosis.foretold
        if subject.classes is None and seen is not None and cautious(subject, seen):
            wide = f"about {number(too_wide(seen), 2)} times as wide as needed"
            return f"None of {made} checks speaks against it; its error bars are on the safe side, {wide}."
        return f"None of {made} checks speaks against it: its {what} can be taken at their word where there are data."
    names = listed([check.title.lower() for check in found], 3)
    return f"{len(found)} of {made} checks warn{'s' * (len(found) == 1)} ({names}): read below before relying on it."


def learning_note(subject: Subject) -> str:
    """What is said where learning did not come to its end."""
    states = [learned.status for learned in subject.learned if learned is not None]
    if any(status == "out of time" for status in states):
        return "Learning ran out of time: with more of it the fit may become better."
    if any(status.startswith("without limit") for status in states):
        return "Learning found no limit for the mean: the further it moves, the better it explains the data. Give it a prior."
    if any(status.startswith("stuck") for status in states):
        return (
            "Learning ended where its objective jumps: try another inference ('ep'), a stronger prior, or another likelihood."
        )
    return ""


# kernels --------------------------------------------------------------------------------------------------------


def component_rows(subject: Subject) -> list[dict[str, Any]]:
    """The terms of the kernel: name, words, and the share of the fit's variance where it is known (None where not)."""
    post = subject.post
    kernels: Any = post.model.kernel if isinstance(post.model.kernel, tuple) else (post.model.kernel,)
    if len(kernels) > 1 or len(subject.posteriors) > 1:
        labels = subject.functions or list(subject.parts)
        if len(subject.posteriors) > 1:
            kernels = tuple(p.model.kernel for p in subject.posteriors)
        return [
            {"name": f"{labels[i] if i < len(labels) else i}: {name}", "words": kernel_words(term, subject), "share": None}
            for i, kernel in enumerate(kernels)
            for name, term in zip(term_names(terms(kernel)), terms(kernel), strict=True)
        ]
    parts = terms(kernels[0])
    shares: dict[str, float] = {}
    if len(parts) == 1:
        shares = {term_names(parts)[0]: 1.0}
    else:
        try:
            x = post.data.X
            some = x if x.rows <= 1000 else x.take(np.sort(np.random.default_rng(0).choice(x.rows, 1000, replace=False)))
            shares = post.components(some).share()
        except CovaryError:
            shares = {}
    return [
        {"name": name, "words": kernel_words(term, subject), "share": shares.get(name)}
        for name, term in zip(term_names(parts), parts, strict=True)
    ]


def kernel_words(kernel: Any, subject: Subject) -> str:
    """What a term of a kernel says about the function.

    Examples
    --------
    >>> from covary.kernels import Matern52
    >>> class Two:
    ...     columns = ("age", "dose")
    >>> kernel_words(2.0 * Matern52(lengthscale=[3.0, 40.0]), Two())
    'a smooth function of age and dose, varying over about 3 in age and 40 in dose'
    """
    d = len(subject.columns)
    seen = columns_of(kernel, d)
    names = [subject.columns[i] for i in seen]
    inner = _inner(kernel)
    if isinstance(inner, Product) and not isinstance(_unscaled(kernel), Columns):
        return ", times ".join(kernel_words(factor, subject) for factor in inner.factors)
    if isinstance(inner, Product) and [type(_inner(f)).__name__ for f in inner.factors].count("Periodic") == 1:
        return _season(inner, names)
    if isinstance(inner, Product):
        each = [_inner(factor) for factor in inner.factors]
        words = [_base(part) for part in each]
        return f"{' times '.join(words)} of {listed(names)}" + "".join(_scale(p, f, subject, d) for p, f in _pairs(inner, each))
    if isinstance(inner, Sum):
        return f"a sum of {len(inner.terms)} functions of {listed(names)}"
    kind = type(inner).__name__
    if kind == "Constant":
        return _base(inner)
    way = "between categories of" if kind in ("Hamming", "Exchangeable") else "of" if "function" in _base(inner) else "in"
    if kind in ("Hamming", "Exchangeable"):
        return f"differences {way} {listed(names)}"
    return f"{_base(inner)} {way} {listed(names)}{_scale(inner, kernel, subject, d)}"


def _season(product: Any, names: list[str]) -> str:
    """A pattern that repeats and changes slowly."""
    each = [_inner(factor) for factor in product.factors]
    wave = next(part for part in each if type(part).__name__ == "Periodic")
    lengths = [np.ravel(part.lengthscale) for part in each if part is not wave and hasattr(part, "lengthscale")]
    slow = [float(v[0]) for v in lengths if v.size == 1]
    out = f"a pattern in {listed(names)} that repeats every {_measured(float(wave.period), names)}"
    return out + (f" and changes over about {_measured(min(slow), names, 3)}" if slow else "")


def _measured(value: float, names: list[str], digits: int = 4) -> str:
    """A number with the unit of the only column there is, where its name ends with one: 4.8 years, 1 year."""
    unit = re.fullmatch(r".*\((years|days|hours|seconds)\)", names[0]) if len(names) == 1 else None
    text = number(value, digits)
    return text if unit is None else f"{text} {unit[1].removesuffix('s') if text == '1' else unit[1]}"


def _pairs(product: Any, inner: list[Any]) -> Any:
    return zip(inner, product.factors, strict=True)


def _unscaled(kernel: Any) -> Any:
    while isinstance(kernel, Scaled):
        kernel = kernel.kernel
    return kernel


def _inner(kernel: Any) -> Any:
    while isinstance(kernel, Scaled | Columns | Power):
        kernel = kernel.kernel
    return kernel


def _base(kernel: Any) -> str:
    return SMOOTH.get(type(kernel).__name__, f"a {type(kernel).__name__} function")


def _scale(inner: Any, kernel: Any, subject: Subject, d: int) -> str:
    """Over what distance, or with what period."""
    kind = type(inner).__name__
    period = getattr(inner, "period", None)
    if period is not None and np.ndim(period) == 0:
        return f", every {_measured(float(period), [subject.columns[i] for i in columns_of(kernel, d)])}"
    length = getattr(inner, "lengthscale", None)
    if length is None or kind in ("Linear", "Periodic", "Hamming", "Exchangeable", "Polynomial"):
        return ""
    names = [subject.columns[i] for i in columns_of(kernel, d)]
    values = np.atleast_1d(np.asarray(length, np.float64))
    if len(values) == 1:
        return f", varying over about {_measured(float(values[0]), names, 3)}"
    if len(values) != len(names):
        return ""
    order = np.argsort(values)
    some = [f"{number(float(values[i]), 3)} in {names[i]}" for i in order[:4]]
    return f", varying over about {listed(some)}"
