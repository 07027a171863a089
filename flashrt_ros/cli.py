"""The `flashrt` command. Every subcommand's code is imported only when it is asked for: `flashrt plan` needs no ROS."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flashrt_ros import __version__
from flashrt_ros.errors import FlashRTError
from flashrt_ros.train.recipe import add_arguments as add_train_arguments


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for an error that it has printed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    options.arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return options.run(options) or 0
    except FlashRTError as error:
        print(f"flashrt: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flashrt", description="Vision-language-action policies in real time on ROS 2.")
    parser.add_argument("--version", action="version", version=f"flashrt_ros {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="the built-in robot: ten episodes over real DDS, a table and pictures")
    demo.add_argument("--episodes", type=int, default=10)
    demo.add_argument("--seed", type=int, default=10_000, help="scene of the first episode; the others follow")
    demo.add_argument("--contract", type=Path, default=None, help="contract file (default: the built-in policy's)")
    demo.add_argument("--out", type=Path, default=Path("out/demo"), help="where table, pictures and logs go")
    demo.set_defaults(run=_demo)

    drill = commands.add_parser("drill", help="kill -9 policy, camera and player while the built-in robot moves; or plant faults in "
                                "its decisions")
    drill.add_argument("--faults", action="store_true", help="kill nobody, but plant faults in the policy's decisions: the same scenes "
                       "with and without")
    drill.add_argument("--episodes", type=int, default=60, metavar="N", help="with --faults: scenes (default: %(default)s)")
    drill.add_argument("--victims", default="policy,camera,player", help="separated by commas, in turn (default: %(default)s)")
    drill.add_argument("--rounds", type=int, default=1, metavar="N", help="how often each is killed (default: %(default)s)")
    drill.add_argument("--seed", type=int, default=10_000, help="scene of the first turn; the others follow")
    drill.add_argument("--contract", type=Path, default=None, help="contract file (default: the built-in policy's)")
    drill.add_argument("--out", type=Path, default=Path("out/drill"), help="where the picture and logs go")
    drill.add_argument("--json", type=Path, default=None, metavar="FILE", help="figures and every violation")
    drill.set_defaults(run=_drill)

    plan = commands.add_parser("plan", help="verify a contract and show the pipeline that it makes")
    plan.add_argument("contract", type=Path)
    plan.add_argument("--picture", type=Path, default=None, metavar="FILE.svg", help="also draw it")
    plan.set_defaults(run=_plan)

    _add_eval(commands)

    train = commands.add_parser("train", help="train the policy in the box from nothing")
    add_train_arguments(train)
    train.set_defaults(run=_train)

    _add_replay(commands)

    messages = commands.add_parser("messages", help="compile the package's ROS messages into this Python's prefix")
    messages.set_defaults(run=_messages)

    doctor = commands.add_parser("doctor", help="what this machine has and lacks")
    doctor.set_defaults(run=_doctor)

    bench = commands.add_parser("bench", help="measurements on this machine")
    bench.add_argument("what", choices=["load", "loop", "ablation", "capsule"], help="load: three cameras and joint states into a node "
                       "shaped as ours; loop: how late the player's control loop wakes on a busy machine; ablation: what a capsule must hold; "
                       "capsule: what taking one costs")
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    bench.set_defaults(run=_bench)
    return parser


def _add_eval(commands) -> None:
    evaluate = commands.add_parser(
        "eval", help="episodes in the built-in world, in simulated time: success with intervals",
        description="Episodes in the built-in world, in simulated time, in many processes. Every setting and every control runs in "
        "the same scenes. See docs/evaluation.md.")
    evaluate.add_argument("contract", type=Path, nargs="*", help="contract files (default: the built-in policy's)")
    what = evaluate.add_argument_group("what is run")
    what.add_argument("--tasks", default="pick,place,belt", help="kinds of task, separated by commas (default: %(default)s)")
    what.add_argument("--episodes", type=int, default=100, metavar="N", help="per task and row (default: %(default)s)")
    what.add_argument("--seed", type=int, default=10_000, metavar="S", help="first scene (default: 10000, where evaluation begins)")
    what.add_argument("--training-seeds", action="store_true", help="allow scenes of training, for debugging")
    what.add_argument("--set", action="append", default=[], metavar="KEY=V1,V2,..",
                      help="a row per value of a contract's key, such as stages.vision.every=1,2,4; several make the product")
    what.add_argument("--controls", action="store_true", help="also black images, wrong instructions and held-out pairs")
    what.add_argument("--expert", action="store_true", help="the scripted expert on privileged poses instead of the policy")
    what.add_argument("--latency", default="40", metavar="MS", help="from a decision to its chunk's arrival at the player (default: "
                      "40), or 'measured': as long as each decision takes here")
    what.add_argument("--strategy", default="latest", metavar="NAME", help="what the player follows when a new chunk comes: "
                      "'latest' (default); 'ensemble', the mean of all predictions for the same moment; or 'rtc', for a policy that "
                      "continues its last chunk (--set policy.continues=future_state)")
    how = evaluate.add_argument_group("how")
    how.add_argument("--workers", type=int, default=0, metavar="W", help="processes (default: one per core)")
    how.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    how.add_argument("--threads", type=int, default=1, metavar="T", help="of each process (default: %(default)s)")
    out = evaluate.add_argument_group("what comes out, beside the tables")
    out.add_argument("--json", type=Path, default=None, metavar="FILE", help="figures and every episode")
    out.add_argument("--plot", type=Path, default=None, metavar="FILE.png", help="success against the first key that varies")
    out.add_argument("--failures", type=Path, default=None, metavar="DIR", help="a strip of pictures per failed episode")
    out.add_argument("--from", dest="merge", type=Path, action="append", default=[], metavar="FILE",
                     help="run nothing: tables and plot from what --json wrote; several are put together")
    evaluate.set_defaults(run=_eval)


def _add_replay(commands) -> None:
    replay = commands.add_parser(
        "replay", help="decide again: on a rosbag, or one decision from the black box",
        description="With BAG: what a policy decides on a recording, against what was done then. With --capsule: makes the decision in a "
        "black box's file again; exit code 0: it came out the same, bit for bit; 2: not so, on another engine than the recorded; 1: not so, "
        "on the same.")
    replay.add_argument("bag", type=Path, nargs="?", default=None, help="a rosbag2 directory or a ROS 1 .bag file")
    replay.add_argument("--capsule", type=Path, default=None, metavar="FILE", help="a file of the black box (contract's rollback.black_box)")
    replay.add_argument("--contract", type=Path, default=None, metavar="FILE", help="whose inputs, policy and rates (with BAG; default: the "
                        "demo's); in place of the one in the file (with --capsule)")
    replay.add_argument("--device", default="", help="cpu or cuda (default: cpu; with --capsule the recorded one, if it is here)")
    replay.add_argument("--threads", type=int, default=1, metavar="T", help="of PyTorch, with BAG (default: %(default)s)")
    replay.add_argument("--remap", action="append", default=[], metavar="RECORDED:=CONTRACT", help="a topic's recorded name, and the contract's")
    replay.add_argument("--task", default="", metavar="TEXT", help="the instruction, where none is recorded")
    replay.add_argument("--distribution", default="jazzy", help="whose message definitions, where the bag has none (default: %(default)s)")
    replay.add_argument("--json", type=Path, default=None, metavar="FILE", help="figures, with BAG")
    replay.set_defaults(run=_replay)


def _demo(options: argparse.Namespace) -> int:
    from flashrt_ros.ros.demo import demo

    return demo(options.episodes, options.seed, options.contract, options.out)


def _drill(options: argparse.Namespace) -> int:
    if options.faults:
        from flashrt_ros.ros import fault_drill

        return fault_drill.drill(options.episodes, options.seed, options.contract, options.out, options.json)
    from flashrt_ros.ros.drill import drill

    return drill(options.victims.split(","), options.rounds, options.seed, options.contract, options.out, options.json)


def _plan(options: argparse.Namespace) -> None:
    from flashrt_ros import policies
    from flashrt_ros.contract.load import load
    from flashrt_ros.contract.picture import svg
    from flashrt_ros.contract.table import text
    from flashrt_ros.contract.verify import verify

    contract = load(options.contract)
    pipeline = verify(contract, policies.spec(contract.policy))
    print(text(pipeline), end="")
    if options.picture is not None:
        options.picture.write_text(svg(pipeline))
        print(f"picture: {options.picture}")


def _eval(options: argparse.Namespace) -> int:
    from flashrt_ros.bench.evaluate import evaluate

    return evaluate(options)


def _train(options: argparse.Namespace) -> int:
    from flashrt_ros.train.train import train

    return train(options)


def _replay(options: argparse.Namespace) -> int:
    if (options.bag is None) == (options.capsule is None):
        raise FlashRTError("flashrt replay: give either a BAG or --capsule FILE")
    if options.capsule is not None:
        from flashrt_ros.replay.decision import replay

        verdict = replay(options.capsule, options.device, options.contract)
        print(verdict.text)
        return verdict.code
    from flashrt_ros.replay.bag_replay import replay_bag
    from flashrt_ros.resources import DEFAULT_CONTRACT, find

    if wrong := next((text for text in options.remap if text.count(":=") != 1), None):
        raise FlashRTError(f"--remap {wrong!r}: write RECORDED:=CONTRACT, such as /camera/image_raw:=scene_camera/image_raw")
    remap = dict(text.split(":=") for text in options.remap)
    return replay_bag(options.bag, options.contract or find(DEFAULT_CONTRACT), remap, options.distribution, options.task, options.device or "cpu",
                      options.threads, options.json)


def _messages(options: argparse.Namespace) -> None:
    from flashrt_ros.ros.build_messages import build_messages

    print(f"messages are in {build_messages()}")


def _doctor(options: argparse.Namespace) -> int:
    from flashrt_ros.ros.doctor import doctor

    return doctor()


def _bench(options: argparse.Namespace) -> int:
    if options.what == "loop":
        from flashrt_ros.bench.loop import main
    elif options.what == "ablation":
        from flashrt_ros.bench.ablation import main
    elif options.what == "capsule":
        from flashrt_ros.bench.capsule_cost import main
    else:
        from flashrt_ros.bench.camera_load import main

    return main(options.rest)


if __name__ == "__main__":
    sys.exit(main())
