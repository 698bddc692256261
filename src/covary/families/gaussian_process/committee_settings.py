"""Conversion of committee settings to JSON and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from covary._checks import fail
from covary.committee.rules import RULES, AbstractRule, GPoE, as_rule
from covary.committee.settings import Committee
from covary.files import pages
from covary.files.pages import Page, whole
from covary.gram.base import AbstractGram

MOST = 2**31  # largest number of rows, experts and files in a description
agree = partial(pages.agree, what="its experts")


def encode_committee(committee: Committee, gram: Callable[[AbstractGram], Page]) -> Page:
    """Return the settings of a committee for JSON; ``gram`` encodes the gram of its experts."""
    rule = as_rule(committee.rule)
    name = next((text for text, kind in RULES.items() if type(rule) is kind), None)
    if name is None:
        raise fail("save", f"the rule is {rule!r}", "use one of covary's rules")
    return {
        "type": "Committee",
        "experts": None if committee.experts is None else int(committee.experts),
        "rule": name,
        "weights": rule.weights if isinstance(rule, GPoE) else None,
        "partition": str(committee.partition),
        "names": None if committee.names is None else list(committee.names),
        "learning": str(committee.learning),
        "nearest": None if committee.nearest is None else int(committee.nearest),
        "gram": gram(committee.gram),
    }


def decode_committee(record: Page, gram: Callable[[Page], AbstractGram | Committee]) -> Committee:
    """Return the settings written by :func:`encode_committee`."""
    name, weights = str(record["rule"]), record["weights"]
    rule: AbstractRule | str = GPoE(str(weights)) if name == "gpoe" and weights not in (None, "equal") else name
    as_rule(rule, "load")
    experts = record["experts"]
    inner = gram(record["gram"])
    agree(isinstance(inner, AbstractGram))
    assert isinstance(inner, AbstractGram)
    found = Committee(
        None if experts is None else whole(experts, MOST),
        rule=rule,
        partition=str(record["partition"]),
        names=None if record.get("names") is None else tuple(map(str, record["names"])),
        learning=str(record["learning"]),
        nearest=None if record.get("nearest") is None else whole(record["nearest"], MOST),
        gram=inner,
    )
    found.check(1 if experts is None else experts)
    return found
