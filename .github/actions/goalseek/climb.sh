#!/usr/bin/env bash
# Climb within LIMITS. AGENT_ENV has the agent's keys, a NAME=value a line; no verify command may get one of them.
set -euo pipefail
keys=() probes=() probe=probe-$RANDOM$RANDOM$RANDOM
while IFS='=' read -r name value; do
    if [ -n "$value" ]; then # a secret that is not there is empty
        keys+=("$name=$value")
        probes+=("$name=$probe")
    fi
done <<<"${AGENT_ENV:-}"
unset AGENT_ENV

# Does a verify command find these names, with other values, among its variables or in those of another process?
look() {
    local read='cat /proc/*/environ 2>/dev/null | tr "\0" "\n"; echo read'
    env "${probes[@]}" goalseek -m "$MANIFEST" exec --as verify -- sh -c "$read"
}
if [ ${#keys[@]} -gt 0 ]; then
    if ! look >/dev/null 2>"$RUNNER_TEMP/goalseek/look.txt" &&
        grep 'nothing is measured yet' "$RUNNER_TEMP/goalseek/look.txt"; then
        goalseek -m "$MANIFEST" baseline # the first night
    fi
    found=$(look)
    if [[ $found != *read || $found == *"$probe"* ]]; then
        echo "::error file=$MANIFEST::a verify command would get the agent's keys: see env.verify and sandbox.mode"
        exit 1
    fi
fi
read -ra limits <<<"$LIMITS"
env "${keys[@]}" goalseek -m "$MANIFEST" iterate "${limits[@]}"
