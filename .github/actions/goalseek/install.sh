#!/usr/bin/env bash
# Install goalseek from the repository that holds this action, and the sandbox. EXTRAS: extras of goalseek.
set -euo pipefail
case ${GITHUB_EVENT_NAME:-} in
schedule | workflow_dispatch | repository_dispatch | push) ;;
*) # a pull request brings a stranger's manifest and commands
    echo "::error::goalseek does not climb on the event '${GITHUB_EVENT_NAME:-}': run it on a schedule or by hand"
    exit 1
    ;;
esac
sources=$(cd "$(dirname "$0")/../../.." && pwd)
command -v bwrap >/dev/null || { sudo apt-get update -q && sudo apt-get install -qy bubblewrap; }
if [ -e /proc/sys/kernel/apparmor_restrict_unprivileged_userns ]; then
    sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0
fi
# An environment of its own: the python of verify commands stays the one that the workflow has set up.
python3 -m venv "$RUNNER_TEMP/goalseek/venv"
"$RUNNER_TEMP/goalseek/venv/bin/pip" install -q "$sources${EXTRAS:+[$EXTRAS]}"
mkdir -p "$RUNNER_TEMP/goalseek/bin"
ln -sf ../venv/bin/goalseek "$RUNNER_TEMP/goalseek/bin/goalseek"
echo "$RUNNER_TEMP/goalseek/bin" >>"$GITHUB_PATH"
