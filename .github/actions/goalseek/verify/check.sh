#!/usr/bin/env bash
# Set the check goalseek/verify on COMMIT by CODE, the exit code of goalseek verify.
set -euo pipefail
answer=$RUNNER_TEMP/goalseek/night/verify.txt
# A refused claim has exit code 3, too, but no answer.
if [ "$CODE" = 3 ] && ! grep -q '^cannot be compared: ' "$answer"; then CODE=refused; fi
case $CODE in
0) conclusion=success title="the measurements agree" ;;
1) conclusion=failure title="the measurements disagree" ;;
3) conclusion=neutral title="it cannot be compared on this runner" ;;
*) conclusion=failure title="goalseek verify ended with: $CODE" ;;
esac
summary=$(printf '```text\n%s\n```\n' "$(head -c 60000 "$answer")")
gh api --method POST "repos/$GITHUB_REPOSITORY/check-runs" --silent -f name=goalseek/verify -f head_sha="$COMMIT" \
    -f status=completed -f conclusion="$conclusion" -f "output[title]=$title" -f "output[summary]=$summary" \
    -f details_url="${GITHUB_SERVER_URL:-}/$GITHUB_REPOSITORY/actions/runs/${GITHUB_RUN_ID:-}"
[ "$conclusion" != failure ] || { echo "::error::$title" && exit 1; }
