"""Where a chunk is entered, and for how long it may be played from there. A pure function of the chunk and the player's place;
must not know motion, limits or sessions."""

from __future__ import annotations

from dataclasses import dataclass

from flashrt_ros.chunk.chunk import Chunk
from flashrt_ros.player.verdict import Reason, Refused


@dataclass(frozen=True, slots=True)
class Entry:
    """start_ns: of the chunk's step 0, in played time. into_ns: how far into the chunk it is entered. ticks: for which it may
    be played; end: the counter for why it is over then."""

    start_ns: int
    into_ns: int
    ticks: int
    end: str


def find_entry(chunk: Chunk, player_id: int, consumed: int, time_ns: int, tick_ns: int, expiry_ns: int, lead: int) -> Entry | Refused:
    """For a player of run `player_id` that has played `consumed` ticks and whose present command is for time_ns; the motion of
    the next `lead` ticks is fixed.

    At the steps consumed since the chunk's base if this run was playing there; else by its stamp, not before step 0.
    """
    base, played_ns = chunk.base, consumed * tick_ns
    if base.player == player_id and base.session != 0:
        if base.tick > consumed:
            return Refused(Reason.BAD_BASE, f"chunk {chunk.order}: its base is tick {base.tick} of this player, "
                                            f"which has played {consumed}")
        start_ns = base.tick * tick_ns + base.lag_ns + chunk.offset_ns
    else:
        start_ns = played_ns + chunk.start_ns - time_ns
    into_ns = max(0, played_ns - start_ns)
    steps_left = ((chunk.horizon - 1) * chunk.step_ns - into_ns) // tick_ns
    life_left = (chunk.start_ns + expiry_ns - time_ns) // tick_ns
    ticks = min(steps_left, life_left)
    if ticks <= lead:
        return Refused(Reason.HORIZON if steps_left <= lead else Reason.EXPIRED,
                       f"chunk {chunk.order}: entered at step {into_ns / chunk.step_ns:.1f} of {chunk.horizon} it "
                       f"has {steps_left} ticks left, and {life_left} to its expiry; it needs more than the "
                       f"{lead} whose motion is fixed (lead_ms)")
    return Entry(start_ns, into_ns, ticks, "ran_out" if steps_left <= life_left else "chunk_expired")
