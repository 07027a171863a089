"""What the player answers to a chunk that it is offered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np


class Reason(str, Enum):
    """Why a chunk was refused; the values name counters."""

    IDLE = "idle"  # the player is not active
    ESTOP = "estop"  # an e-stop is latched
    TAKEN_OVER = "taken_over"  # a person has the arm
    FOREIGN_PUBLISHER = "foreign_publisher"  # somebody else commands the same controller
    TRACKING = "tracking"  # the arm does not follow its commands
    OLD_RUN = "old_run"  # its base is not of the run that began when the last of these four ended
    EXPIRED = "expired"  # its step 0 lies further back than the expiry
    FUTURE = "future"  # its step 0 lies further ahead than the expiry
    NO_SESSION = "no_session"  # session 0 means none
    FOREIGN_SESSION = "foreign_session"  # while the session that is followed was heard within the expiry
    OLD_SESSION = "old_session"  # of a session that another has succeeded
    TWO_SESSIONS = "two_sessions"  # two sessions are alive: a fault
    OLD_EPOCH = "old_epoch"  # below the epoch announced or played
    STALE_ORDER = "stale_order"  # not after the newest accepted (epoch, seq, attempt): repeated or overtaken
    UNKNOWN_JOINTS = "unknown_joints"
    MISSING_JOINTS = "missing_joints"
    NON_FINITE = "non_finite"
    BAD_BASE = "bad_base"  # its base lies ahead of this player's cursor
    HORIZON = "horizon"  # at the point of entry no step is left to play


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """entry_step: the step at which the chunk is entered. clamped: targets beyond a position limit by more than the
    tolerance, moved to the limit. jump: how far the chunk is from what had been planned for the moment at which it takes
    over, float64 [N], in rad or m."""

    entry_step: float
    clamped: int
    jump: np.ndarray


@dataclass(frozen=True, slots=True)
class Refused:
    """detail: the chunk, the value found and what is allowed, for people."""

    reason: Reason
    detail: str
