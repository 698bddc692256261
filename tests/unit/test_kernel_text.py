"""Kernels from text: valid expressions, and error messages for invalid ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

from covary._checks import CovaryError, NotEnoughMemory
from covary.data import as_inputs
from covary.kernels import (
    CATALOGUE,
    Additive,
    Categories,
    Columns,
    Constant,
    Function,
    Linear,
    Matern12,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    Wiener,
    bounded,
    fixed,
    parse,
)
from covary.parameters import parameters


def weighted(x, z, weight):
    return weight * (x * z).sum()


def plain(x, z):
    return (x * z).sum()


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("Matern52()", Matern52()),
        ("  Matern52( )  ", Matern52()),
        ("((Matern52()))", Matern52()),
        ("Matern52(2)", Matern52(2.0)),
        ("Matern52(lengthscale=[1,3])", Matern52([1.0, 3.0])),
        ("Matern52(lengthscale=(1, 3))", Matern52([1.0, 3.0])),
        ("2*Matern52(lengthscale=[1,3]) + Periodic(period=fixed(1))", 2 * Matern52([1.0, 3.0]) + Periodic(period=fixed(1.0))),
        ("Matern52()*2", 2.0 * Matern52()),
        ("+1.5e-3*Linear()", 0.0015 * Linear()),
        ("3", 3.0 * Constant()),
        ("Matern52() + 3", Matern52() + 3.0),
        ("3 + Matern52()", 3.0 + Matern52()),
        ("fixed(3) + Matern52()", fixed(3.0) + Matern52()),
        ("Matern52() + Linear()*Periodic()", Matern52() + Linear() * Periodic()),
        ("(Matern52() + Linear())*Periodic()", (Matern52() + Linear()) * Periodic()),
        ("2*SquaredExponential()**3", 2.0 * SquaredExponential() ** 3),
        ("(2*SquaredExponential())**3", (2.0 * SquaredExponential()) ** 3),
        ("Polynomial(3, bias=2)", Polynomial(3, bias=2.0)),
        ("Polynomial(degree=3)", Polynomial(3)),
        ("RationalQuadratic(alpha=bounded(1, 0.1, 10))", RationalQuadratic(alpha=bounded(1.0, 0.1, 10.0))),
        ("fixed(2)*Matern52()", fixed(2.0) * Matern52()),
        ("Columns(Matern52(), columns=[0, 2])", Matern52().on(0, 2)),
        ("Columns(Matern52() + Linear(), columns=1)", (Matern52() + Linear()).on(1)),
        ("Wiener()", Wiener()),
    ],
)
def test_good_text_gives_the_kernel(text: str, kernel):
    assert parse(text) == kernel


WITHIN = (
    "Columns",
    "Spectral",
    "VaryingLengthscale",
    "PaciorekSchervish",
    "VaryingAmplitude",
    "ChangePoint",
    "Warped",
    "Mapped",
)
WITHIN += ("Additive", "Invariant", "BasisFunctions", "GaussianBasis", "Normalised", "OnSphere")  # need a kernel, centres, ...


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in WITHIN])
def test_every_name_of_the_catalogue_reads_with_its_defaults(name: str):
    assert parse(f"{name}()") == CATALOGUE[name]()


@pytest.mark.parametrize("value", [1 / 3, 1e-300, 1.7976931348623157e308, 5e-324, np.pi, 123456789.123456789])
def test_numbers_read_back_to_the_last_digit(value: float):
    assert parse(repr(Matern52(value))).lengthscale == value
    assert parse(repr(value * Matern52())).variance == value


@pytest.mark.parametrize(
    "mark",
    [fixed(0.3), bounded(0.3, 0.1, 0.9), fixed([0.3, 0.7]), bounded([0.3, 0.7], 0.0, 1e9)],
    ids=["fixed", "bounded", "fixed-ard", "bounded-ard"],
)
def test_marks_read_back(mark):
    kernel = RationalQuadratic(lengthscale=mark)
    again = parse(repr(kernel))
    assert again == kernel
    assert parameters(again)["lengthscale"].mark == mark.mark
    assert parameters(again)["alpha"].mark.fixed is False


def test_a_mark_that_is_fixed_and_bounded_reads_back():
    kernel = parse("Matern52(lengthscale=fixed(bounded(1.0, 0.5, 2.0)))")
    mark = parameters(kernel)["lengthscale"].mark
    assert (mark.fixed, mark.bounds) == (True, (0.5, 2.0))
    assert parse(repr(kernel)) == kernel


def test_one_sided_bounds_read_back():
    kernel = Matern52(bounded(1.0, 0.5, np.inf))
    assert parse(repr(kernel)) == kernel


def test_a_long_flat_sum_is_one_flat_sum():
    kernel = parse(" + ".join(f"{i}.0*Matern52()" for i in range(1, 301)))
    assert isinstance(kernel, Sum)
    assert len(kernel.terms) == 300
    assert [float(t.variance) for t in kernel.terms] == list(range(1, 301))
    assert parse("+".join(["Wiener()"] * 1000)) == Sum((Wiener(),) * 1000)


def test_a_long_flat_product_is_one_flat_product():
    assert len(parse("*".join(["Matern12()"] * 300)).factors) == 300


def test_forty_levels_of_brackets_are_read():
    assert len(parameters(parse("1 + Matern52()*(" * 20 + "Matern52()" + ")" * 20))) == 41


def nested(levels: int) -> str:
    """Brackets that matter, this many deep."""
    return "Matern52() * (Linear() + " * levels + "Matern52()" + ")" * levels


BAD = {
    "unknown kernel": ("Matern53()", "no kernel is called 'Matern53'; choose a kernel such as Matern52"),
    "unknown name alone": ("Foo", "no kernel is called 'Foo'; write one such as"),
    "missing brackets": ("2*Matern52 + Linear()", "Matern52 is missing parentheses; write Matern52()"),
    "unclosed bracket": ("Matern52(", "is not a kernel expression"),
    "empty": ("", "is not a kernel expression"),
    "blank": ("   ", "is not a kernel expression"),
    "two expressions": ("Matern52(); Linear()", "is not a kernel expression"),
    "two lines": ("Matern52()\nLinear()", "is not a kernel expression"),
    "assignment": ("k = Matern52()", "is not a kernel expression"),
    "walrus": ("(k := Matern52())", "cannot be parsed"),
    "attribute": ("Matern52().lengthscale", "cannot be parsed"),
    "attribute call": ("Matern52().gram(0)", "cannot be parsed"),
    "columns by keyword": ("Matern52().on(columns=0)", "cannot be parsed"),
    "columns of a number by on": ("(2).on(0)", "cannot be parsed"),
    "dunder chain": ("Matern52().__class__.__mro__[1].__subclasses__()", "cannot be parsed"),
    "subscript": ("Matern52()[0]", "cannot be parsed"),
    "lambda": ("lambda: Matern52()", "cannot be parsed"),
    "lambda called": ("(lambda: Matern52())()", "cannot be parsed"),
    "import": ("__import__('os').system('true')", "cannot be parsed"),
    "import name": ("__import__('os')", "cannot be parsed"),
    "import statement": ("import os", "is not a kernel expression"),
    "eval": ("eval(1)", "no kernel is called 'eval'"),
    "eval of text": ("eval('1')", "cannot be parsed"),
    "comprehension": ("[Matern52() for i in (1, 2)]", "cannot be parsed"),
    "generator argument": ("Matern52(i for i in (1, 2))", "cannot be parsed"),
    "conditional": ("Matern52() if 1 else Linear()", "cannot be parsed"),
    "comparison": ("Matern52() < Linear()", "cannot be parsed"),
    "boolean operator": ("Matern52() and Linear()", "cannot be parsed"),
    "not": ("not Matern52()", "cannot be parsed"),
    "string": ("'Matern52()'", "cannot be parsed"),
    "string argument": ("Matern52(lengthscale='1')", "cannot be parsed"),
    "f-string": ("f'{1}'", "cannot be parsed"),
    "bytes": ("b'1' * Matern52()", "cannot be parsed"),
    "True": ("True * Matern52()", "cannot be parsed"),
    "None": ("Matern52(lengthscale=None)", "cannot be parsed"),
    "ellipsis": ("Matern52(...)", "cannot be parsed"),
    "complex": ("2j * Matern52()", "cannot be parsed"),
    "dictionary": ("{1: 2}", "cannot be parsed"),
    "starred": ("Matern52(*[1])", "cannot be parsed"),
    "double starred": ("Matern52(**{})", "cannot be parsed"),
    "minus": ("Matern52() - Linear()", "cannot be parsed"),
    "division by a kernel": ("2 / Matern52()", "cannot be parsed"),
    "matrix product": ("Matern52() @ Linear()", "cannot be parsed"),
    "minus kernel": ("-Matern52()", "cannot be parsed"),
    "list alone": ("[1, 2]", "is not a kernel"),
    "list of kernels": ("[Matern52()]", "cannot be parsed"),
    "kernel plus list": ("Matern52() + [1, 2]", "cannot be parsed"),
    "mark alone": ("fixed(2)", "is not a kernel"),
    "power of a number too big": ("9**65 * Matern52()", "the power is 65; give a number up to 64"),
    "powers of numbers": ("9**9**9**9 * Matern52()", "the power is 387420489; give a number up to 64"),
    "number to a huge power": ("(1e99)**64 * Matern52()", "is not a finite number; write the number itself"),
    "root of a negative number": ("(-2)**0.5 * Matern52()", "is not a finite number"),
    "divided by zero": ("1/0 * Matern52()", "is not a finite number"),
    "negative by arithmetic": ("(2 - 3) * Matern52() - 1", "cannot be parsed"),
    "null byte": ("Matern52()\0", "is not a kernel expression"),
    "too long": ("Matern52()" + " " * 10_000, "the text has 10010 characters; give at most 10000"),
    "too deep": (nested(60), "nested more than 50 levels deep"),
    "200 brackets": ("(" * 250 + "Matern52()" + ")" * 250, "is not a kernel expression"),
    "9000 signs": ("-" * 9000 + "1", "is not a kernel expression"),
    "lists too deep": ("Linear(lengthscale=" + "[" * 60 + "1" + "]" * 60 + ")", "nested more than 50 levels deep"),
    "power too big": ("Matern52() ** 65", "the power is 65; give an integer from 1 to 64"),
    "power huge": ("Matern52() ** 99999999999999999999", "the power is 99999999999999999999"),
    "power zero": ("Matern52() ** 0", "the power is 0"),
    "power negative": ("Matern52() ** -1", "the power is -1"),
    "power not whole": ("Matern52() ** 2.5", "the power is 2.5; give an integer"),
    "power of powers": ("Matern52() ** 9 ** 9 ** 9", "the power is 387420489"),
    "power of a kernel": ("Matern52() ** Matern52()", "cannot be parsed"),
    "number to a kernel": ("2 ** Matern52()", "cannot be parsed"),
    "wrong keyword": ("Matern52(scale=1)", "kernels.Matern52: unknown argument 'scale'; did you mean 'lengthscale'?"),
    "keyword twice": ("Matern52(lengthscale=1, lengthscale=2)", "lengthscale"),
    "too many arguments": (
        "Matern52(1, 2)",
        "2 arguments given by position but it takes 1 (lengthscale); leave the others out",
    ),
    "keyword only": ("RationalQuadratic(1, 2)", "it takes 1 (lengthscale); give the others by name (alpha=...)"),
    "kernel as a number": ("Matern52(lengthscale=Matern52())", "give a number or an array of numbers"),
    "ragged list": ("Matern52(lengthscale=[1, [2, 3]])", "cannot be parsed"),
    "columns missing": ("Columns(Matern52())", "'columns' is missing; write Columns(columns=...)"),
    "columns not whole": ("Columns(Matern52(), columns=[0.5])", "give numbers of columns, counted from 0, or their names"),
    "columns negative": ("Columns(Matern52(), columns=[-1])", "give numbers of columns, counted from 0, or their names"),
    "columns empty": ("Columns(Matern52(), columns=[])", "give numbers of columns, counted from 0, or their names"),
    "columns of a number": ("Columns(3, columns=[0])", "Columns"),
    "bounds reversed": ("Matern52(lengthscale=bounded(1, 2, 0.5))", "the bounds are 2 and 0.5; give lower < upper"),
    "bounds equal": ("Matern52(lengthscale=bounded(1, 1, 1))", "give lower < upper"),
    "bounds missing": ("Matern52(lengthscale=bounded(1))", "bounded does not take these arguments"),
    "bounds of lists": ("Matern52(lengthscale=bounded(1, [0], 2))", "bounded does not take these arguments"),
    "fixed empty": ("Matern52(lengthscale=fixed())", "fixed does not take these arguments"),
    "fixed two": ("Matern52(lengthscale=fixed(1, 2))", "fixed does not take these arguments"),
    "fixed keyword": ("Matern52(lengthscale=fixed(1, lower=2))", "fixed does not take these arguments"),
    "number too large": ("1" + "0" * 400 + " * Matern52()", "more than 300 digits"),
    "length-scale too large": ("Matern52(lengthscale=1" + "0" * 400 + ")", "more than 300 digits"),
    "a matrix without end": (
        "Categories(1000000, rank=100000)",
        "with Categories the kernel has 100,000,000,000 parameters; give",
    ),
    "the same in floats": ("Categories(1e6, rank=1e5)", "give at most 1,000,000 in all"),
    "the same, held": ("Categories(fixed(1000000), rank=fixed(100000))", "give at most 1,000,000 in all"),
    "matrices in a row": (" + ".join(["Categories(1000, rank=900)"] * 2), "has 1,800,000 parameters"),
    "paid for by a negative one": ("Categories(-1000000, rank=1000) + Categories(1000, rank=2000)", "has 2,000,000 parameters"),
    "orders without end": ("Additive(Matern52(), orders=1000000000)", "give at most 1,000,000 in all"),
    "endless orders": ("Additive(Matern52(), orders=inf)", "with Additive the kernel has too many parameters"),
    "a list for a degree": ("PiecewisePolynomial(degree=[2])", "contains a list where one number is expected"),
    "number of 5000 digits": ("1" * 5000 + " * Matern52()", "is not a kernel expression"),
    "long sum with one bad sign": ("Wiener() - " + " + ".join(["Wiener()"] * 800), "cannot be parsed"),
    "call chain": ("Matern52" + "()" * 2000, "kernels.parse: "),
    "function unknown": ("Function(weighted, weight=1.0)", "pass functions={'weighted': f}"),
    "function without a name": ("Function()", "write Function(name, ...)"),
    "function of a lambda": ("Function(lambda x, z: 1)", "write Function(name, ...)"),
    "function of text": ("Function('weighted')", "write Function(name, ...)"),
    "Sum by name": ("Sum(Matern52())", "no kernel is called 'Sum'"),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_text_is_refused_in_one_sentence(text: str, expected: str):
    with pytest.raises(CovaryError) as caught:
        parse(text)
    message = str(caught.value)
    assert expected in message
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert len(message) < 500


def test_numpy_s_whole_numbers_are_printed_as_numbers():
    for kernel in (Categories(np.int64(3)), Polynomial(degree=np.int32(2)), Columns(Matern52(), columns=[np.int64(1)])):
        assert parse(repr(kernel)) == kernel


def test_what_does_not_fit_into_memory_is_refused_in_python_too():
    with pytest.raises(NotEnoughMemory, match=r"kernels.Categories: this needs .* GiB"):
        Categories(10**9, rank=10**6)
    with pytest.raises(NotEnoughMemory, match=r"kernels.Additive: this needs .* GiB"):
        Additive(Matern52(), orders=10**15)
    assert Categories(2000, rank=600).factor.shape == (2000, 600)  # more than a text may ask for
    with pytest.raises(CovaryError, match=r"orders are \[1, 2, 3, 4, 5, 6, 7, 8, \.\.\.\] but X has 2 columns"):
        Additive(Matern52(), orders=100_000).check(as_inputs([[0.0, 1.0]]))


@pytest.mark.parametrize("value", [None, 3, b"Matern52()", ["Matern52()"], Matern52()])
def test_what_is_not_text_is_refused(value):
    with pytest.raises(CovaryError, match=re.escape("give the kernel as text")):
        parse(value)


def test_nothing_is_executed_while_reading(monkeypatch):
    def never(*_, **__):
        raise AssertionError("text was executed")

    for name in ("eval", "exec", "__import__"):
        monkeypatch.setattr(f"builtins.{name}", never)
    for text in ("eval(1)", "exec(1)", "__import__('os')"):
        with pytest.raises(CovaryError):
            parse(text)


def test_function_kernels_print_and_parse_only_with_their_functions():
    kernel = 2.0 * Function(weighted, parameters={"weight": 0.3}) + Matern12()
    text = repr(kernel)
    assert text == "2.0 * Function(weighted, weight=0.3) + Matern12(lengthscale=1.0)"
    with pytest.raises(CovaryError, match=re.escape("the function 'weighted' is not defined; pass functions={'weighted': f}.")):
        parse(text)
    with pytest.raises(CovaryError, match="'weighted' is not defined"):
        parse(text, functions={"other": weighted})
    assert parse(text, functions={"weighted": weighted}) == kernel
    assert parse("Function(plain)", functions={"plain": plain}) == Function(plain)


def test_a_function_does_not_replace_a_kernel_of_the_catalogue():
    assert parse("Matern52()", functions={"Matern52": plain}) == Matern52()
    with pytest.raises(CovaryError, match="no kernel is called 'plain'"):
        parse("plain()", functions={"plain": plain})


@pytest.mark.parametrize(
    "kernel",
    [
        Function(weighted, parameters={"weight": fixed(0.3)}),
        Function(weighted, parameters={"weight": bounded(0.3, 0.1, 1.0)}),
        Function(weighted, parameters={"weight": 0.3}, smoothness=2),
        Function(plain, smoothness=np.inf),
    ],
    ids=["fixed", "bounded", "smoothness", "analytic"],
)
def test_function_kernels_read_back_with_marks_and_smoothness(kernel):
    assert parse(repr(kernel), functions={"weighted": weighted, "plain": plain}) == kernel


def test_columns_print_as_text_that_reads_back():
    kernel = Columns(2.0 * Matern52([1.0, 2.0]), columns=(2, 0))
    assert repr(kernel) == "Columns(2.0 * Matern52(lengthscale=[1.0, 2.0]), columns=[2, 0])"
    assert parse(repr(kernel)) == kernel


@pytest.mark.parametrize(("name", "meant"), [("RBF", "SquaredExponential"), ("SE", "SquaredExponential")])
def test_other_names_of_the_field(name: str, meant: str) -> None:
    assert repr(parse(f"2*{name}(lengthscale=3)")) == repr(parse(f"2*{meant}(lengthscale=3)"))


def nested(text: str, levels: int, inside: str = "Matern52()") -> str:
    for _ in range(levels):
        inside = text.format(inside)
    return inside


def test_few_words_do_not_take_long_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels inside each other cost what each of them costs, or are refused before they are evaluated."""
    x, calls = as_inputs([[0.1], [0.2]], "test"), []
    monkeypatch.setattr(Matern52, "check", lambda *_: calls.append(1))
    parse(nested("Normalised({})", 8)).check(x)
    assert len(calls) == 1
    with pytest.raises(CovaryError, match="take 1,152,921,504,606,846,976 evaluations for one covariance; nest fewer of them"):
        parse(nested("Invariant({}, group=[[[1.0]], [[-1.0]]])", 30)).check(x)
    parse(nested("Invariant({}, group=[[[1.0]], [[-1.0]]])", 2)).check(x)
    with pytest.raises(CovaryError, match="11 Warped kernels are nested; nest at most 10"):
        parse(nested("Warped({} + Warped(Matern52(), centres=[0.0, 1.0]), centres=[0.0, 1.0])", 10)).check(x)
    with pytest.raises(CovaryError) as caught:
        parse(f"Matern52().on('{'x' * 9000}')").check(x)
    assert len(str(caught.value)) < 300
