#!/usr/bin/env bash
# What a policy's latency costs, per strategy of the player: docs/performance.md. An hour on 2 cores. Results in out/strategies/.
# Usage: scripts/strategies.sh VENV
set -euo pipefail
flashrt=$(cd "$1" && pwd)/bin/flashrt
cd "$(dirname "$0")/.."
mkdir -p out/strategies
from=()
for strategy in latest ensemble rtc; do
    continues=()
    [ "$strategy" = rtc ] && continues=(--set policy.continues=future_state)
    for latency in 0 50 100 200; do
        for tasks in "pick,place --episodes 52" "belt --episodes 40"; do
            file=out/strategies/${strategy}_${latency}_${tasks%%[, ]*}.json
            # shellcheck disable=SC2086
            "$flashrt" eval config/tabletop_vla.contract.yaml --set stages.vision.overlap=null --set stages.vision.every=1 \
                "${continues[@]}" --tasks $tasks --latency "$latency" --strategy "$strategy" --json "$file"
            from+=(--from "$file")
        done
    done
done
"$flashrt" eval "${from[@]}" --plot out/strategies/latency.png
