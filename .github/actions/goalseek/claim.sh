#!/usr/bin/env bash
# Settle and claim the gain, write the report, and make the kept changes commits on BRANCH, onto BASE.
set -euo pipefail
seek() { goalseek -m "$MANIFEST" "$@"; }

night=$RUNNER_TEMP/goalseek/night base=refs/remotes/origin/$BASE
if [ "$(seek promote --onto "$base" --json --query 'length(commits)')" = 0 ]; then
    exit 0 # no change was kept that the base lacks
fi
rm -rf "$night"
mkdir -p "$night"
code=0
seek claim -o "$night/gain.tar" || code=$? # it settles
if [ $code = 1 ]; then
    echo "::notice::there is no gain to claim, so there is no pull request"
    exit 0
fi
[ $code = 0 ] || exit $code
seek report -o "$night/report.html"
seek report -o "$night/report.md"
git config user.email >/dev/null || git config user.email goalseek@users.noreply.github.com
git config user.name >/dev/null || git config user.name goalseek
git update-ref -d "refs/heads/$BRANCH" # of an earlier night, on a runner that keeps its clone
read -ra promote <<<"$PROMOTE"
seek promote --onto "$base" --branch "$BRANCH" "${promote[@]}" | tee "$night/promote.txt"
echo "commit=$(git rev-parse "refs/heads/$BRANCH")" >>"$GITHUB_OUTPUT"
cat "$night/report.md" >>"$GITHUB_STEP_SUMMARY"
