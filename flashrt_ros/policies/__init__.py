"""The policies by name. Light: a policy's torch code is imported by `load`, its declaration alone by `spec`.

A policy `name` is two modules here: `name_spec.py` with `spec(choice)`, free of torch, and `name.py` with
`load(choice, device)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from flashrt_ros.contract.errors import listed, nearest
from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.contract.spec import PolicySpec
from flashrt_ros.errors import FlashRTError

if TYPE_CHECKING:
    from flashrt_ros.policies.base import Policy

NAMES = ("tabletop_vla", "color_servo")


class PolicyChoiceError(FlashRTError):
    """There is no such policy, or it does not come in that variant."""


def spec(choice: PolicyChoice) -> PolicySpec:
    """The declaration of the chosen policy. Raises PolicyChoiceError."""
    return _module(choice, "_spec").spec(choice)


def load(choice: PolicyChoice, device: str = "cpu") -> Policy:
    """The chosen policy, ready to run on a torch device. Raises PolicyChoiceError."""
    return _module(choice, "").load(choice, device)


def _module(choice: PolicyChoice, suffix: str):
    if choice.type not in NAMES:
        raise PolicyChoiceError(
            f"policy.type is {choice.type!r}; allowed are {listed(NAMES)}: {nearest(choice.type, NAMES)}"
        )
    return import_module(f"{__name__}.{choice.type}{suffix}")
