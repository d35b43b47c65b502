"""Fusion choices as a recipe keeps them: the policy, and what a person fixed."""

from __future__ import annotations

import json
from collections.abc import Mapping

from engine.fusion.stitching.nodes import POLICIES, STITCH, Fixed
from engine.support.errors import BadInput
from engine.support.files import parse_json

POLICY, GROUPS, APART = "policy", "groups", "apart"
"""Keys: a word; groups of operators, and pairs of operators kept apart, as JSON lists of lists of names."""


def fusion_of(policy: str, fixed: Fixed) -> dict[str, str]:
    """The choices as a recipe's `fusion`; what is as by default is left out."""
    found = {} if policy == STITCH else {POLICY: policy}
    if fixed.groups:
        found[GROUPS] = json.dumps(fixed.groups)
    if fixed.apart:
        found[APART] = json.dumps(fixed.apart)
    return found


def choices_of(fusion: Mapping[str, str], source: str = "recipe") -> tuple[str, Fixed]:
    """(policy, what is fixed) of a recipe's `fusion`.  BadInput for unknown keys, policies and malformed lists."""
    unknown = sorted(set(fusion) - {POLICY, GROUPS, APART})
    where = f"{source}, fusion"
    if unknown:
        hint = f"choices are {POLICY}, {GROUPS} and {APART}"
        raise BadInput("recipe", where, f"asks for {', '.join(unknown)}, which nothing here follows", hint)
    policy = fusion.get(POLICY, STITCH)
    if policy not in POLICIES:
        raise BadInput("recipe", where, f"policy {policy} is not known", f"use one of {', '.join(POLICIES)}")
    groups = tuple(_names(name, f"{source}, fusion {GROUPS}") for name in _list(fusion, GROUPS, source))
    pairs = [_names(name, f"{source}, fusion {APART}") for name in _list(fusion, APART, source)]
    if any(len(pair) != 2 for pair in pairs):
        raise BadInput("recipe", f"{source}, fusion {APART}", "takes pairs of operators", '[["Add_3", "Mul_4"]]')
    return policy, Fixed(groups, tuple((a, b) for a, b in pairs))


def _list(fusion: Mapping[str, str], key: str, source: str) -> list[object]:
    try:
        found = parse_json(fusion.get(key, "[]"))
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise BadInput("recipe", f"{source}, fusion {key}", "is not a list in JSON", '[["Add_3", "Mul_4"]]')
    return found


def _names(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise BadInput("recipe", where, "holds what is no list of operators", '[["Add_3", "Mul_4"]]')
    return tuple(value)
