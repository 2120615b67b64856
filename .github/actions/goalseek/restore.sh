#!/usr/bin/env bash
# Fetch the ledger of the night before, with every result in it, and the branches that this night builds on.
set -euo pipefail
. "$(dirname "$0")/git-token.sh"
git fetch --quiet --no-tags origin 'refs/goalseek/*:refs/goalseek/*'
git fetch --quiet --no-tags origin "+refs/heads/$BASE:refs/remotes/origin/$BASE"
if git ls-remote --quiet --exit-code origin "refs/heads/$BRANCH" >/dev/null; then
    git fetch --quiet --no-tags origin "+refs/heads/$BRANCH:refs/remotes/origin/$BRANCH"
fi
