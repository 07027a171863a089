"""The `flashrt` command. Every subcommand's code is imported only when it is asked for: `flashrt plan` needs no ROS."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from flashrt_ros import __version__
from flashrt_ros.errors import FlashRTError


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status: 0, 1 for an error that it has printed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
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

    plan = commands.add_parser("plan", help="verify a contract and show the pipeline that it makes")
    plan.add_argument("contract", type=Path)
    plan.add_argument("--picture", type=Path, default=None, metavar="FILE.svg", help="also draw it")
    plan.set_defaults(run=_plan)

    evaluate = commands.add_parser("eval", help="episodes in the built-in world, in this process: success with intervals")
    evaluate.add_argument("contract", type=Path, nargs="?", default=None)
    evaluate.add_argument("--tasks", default="pick,place", help="kinds of task, separated by commas (pick, place, belt)")
    evaluate.add_argument("--episodes", type=int, default=100, help="per task")
    evaluate.add_argument("--seed", type=int, default=10_000, help="first scene; evaluation scenes begin at 10000")
    evaluate.add_argument("--controls", action="store_true", help="also with black images and with wrong instructions")
    evaluate.add_argument("--expert", action="store_true", help="the scripted expert on privileged poses instead of the policy")
    evaluate.add_argument("--workers", type=int, default=0, help="processes (default: one per core)")
    evaluate.add_argument("--json", type=Path, default=None)
    evaluate.set_defaults(run=_eval)

    messages = commands.add_parser("messages", help="compile the package's ROS messages into this Python's prefix")
    messages.set_defaults(run=_messages)

    doctor = commands.add_parser("doctor", help="what this machine has and lacks")
    doctor.set_defaults(run=_doctor)

    bench = commands.add_parser("bench", help="measurements on this machine")
    bench.add_argument("what", choices=["load"], help="load: three cameras and joint states into a node shaped as ours")
    bench.add_argument("rest", nargs=argparse.REMAINDER)
    bench.set_defaults(run=_bench)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from flashrt_ros.ros.demo import demo

    return demo(options.episodes, options.seed, options.contract, options.out)


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


def _messages(options: argparse.Namespace) -> None:
    from flashrt_ros.ros.build_messages import build_messages

    print(f"messages are in {build_messages()}")


def _doctor(options: argparse.Namespace) -> int:
    from flashrt_ros.ros.doctor import doctor

    return doctor()


def _bench(options: argparse.Namespace) -> int:
    from flashrt_ros.bench.camera_load import main as camera_load

    return camera_load(options.rest)


if __name__ == "__main__":
    sys.exit(main())
