"""A policy decides again on recorded data: the same walk from stored message to chunk as the live node, on the bag's time.

Owns the grid over a recording, the task in force, and what each decision came to. Which messages there are is bag.py's; what is reckoned from
the outcomes is metrics.py's. No clock and no threads: two runs over the same messages give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Iterator

from flashrt_ros.capsule.assembly import assemble
from flashrt_ros.capsule.maker import WAY_NS, Asked, ChunkMaker, Made, NotMade
from flashrt_ros.capsule.rollback import State
from flashrt_ros.contract.schema import Contract
from flashrt_ros.decode.decoder import Decoder
from flashrt_ros.engine.intake import Intake
from flashrt_ros.player.limits import Limits
from flashrt_ros.policies.base import TaskError

SESSION = 1  # of a replay: there is nobody else


@dataclass(frozen=True, slots=True)
class Message:
    """One recorded message of a topic. stamp_ns: of its header; None: it has none. content: an object with the message's fields."""

    topic: str
    receive_ns: int
    stamp_ns: int | None
    content: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of the grid. outcome: None where nothing was decided: no task was given, or its text was none that the policy knows (then
    `why` says so)."""

    index: int
    now_ns: int
    epoch: int
    task: str
    outcome: Made | NotMade | None
    why: str = ""


class Redecider:
    """contract: as for the live node. seed: of the noise. digests, pipeline: of what decides.

    A FAULT of the rollback ends in a reset at once and is counted in `faults`: there is no operator in a recording.
    """

    def __init__(self, contract: Contract, device: str = "cpu", threads: int = 1, seed: int = 1) -> None:
        self._engine, self.digests = assemble(contract, device, threads)
        self._engine.warm_up()
        self.pipeline = self._engine.pipeline
        self._decoder = Decoder(self.pipeline, self._engine.policy.encode_text)
        self._seed, self.faults = seed, 0
        self._texts = [i.name for i in self.pipeline.texts]
        self._inputs: dict[str, list[str]] = {}
        for declared in contract.inputs:
            self._inputs.setdefault(declared.channel.topic, []).append(declared.name)

    @property
    def topics(self) -> tuple[str, ...]:
        """Those that the contract's inputs come from."""
        return tuple(self._inputs)

    def run(self, messages: Iterable[Message], task: str = "") -> Iterator[Step]:
        """The decisions on these messages, which are in the order of their receipt. The grid begins with the first; a message counts at the
        moments of the grid from its receipt on. task: the instruction until one is recorded; empty: the contract's default."""
        contract, period_ns = self.pipeline.contract, self.pipeline.period_ns
        self._engine.reset()
        self._intake = Intake(self.pipeline)
        limits = Limits.of(self.pipeline.spec.joints, contract.limits)
        self._maker = ChunkMaker(self._engine, self._intake, self.digests, contract.deadline_ns + WAY_NS, limits)
        self._epoch, self._seq, self._task, self._why = 1, 0, "", "no task is given"
        start_ns, index = None, 0
        for message in messages:
            if start_ns is None:
                start_ns = message.receive_ns
                self._take_task(task or self.pipeline.instruction, start_ns)
            while start_ns + index * period_ns < message.receive_ns:
                yield self._decide(index, start_ns + index * period_ns)
                index += 1
            self._offer(message)

    def close(self) -> None:
        self._engine.close()

    def _offer(self, message: Message) -> None:
        for name in self._inputs.get(message.topic, ()):
            if name in self._texts:
                self._take_task(message.content.data, message.receive_ns)
            else:
                self._intake.offer(name, message.content, message.stamp_ns, message.receive_ns)

    def _take_task(self, text: str, now_ns: int) -> None:
        """As the live node: another instruction is another epoch, and one that is none leaves nothing to do."""
        text, why = text.strip(), "no task is given"
        try:
            if text:
                self._decoder(self._texts[0], text)
        except TaskError as error:
            text, why = "", str(error)
        if text != self._task:
            self._epoch += 1
            for name in self._texts:
                self._intake.offer(name, text, None, now_ns)
        self._task, self._why = text, why

    def _decide(self, index: int, now_ns: int) -> Step:
        if self._texts and not self._task:
            return Step(index, now_ns, self._epoch, "", None, self._why)
        asked = Asked(index, now_ns, SESSION, self._epoch, self._task, self._seed)
        outcome = self._maker.make(asked, self._decoder, self._stamp)
        step = Step(index, now_ns, self._epoch, self._task, outcome)
        if self._maker.rollback.state is State.FAULT:
            self.faults += 1
            self._epoch += 1
            self._maker.reset()
        return step

    def _stamp(self) -> int:
        self._seq += 1
        return self._seq
