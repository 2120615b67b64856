#!/usr/bin/env bash
# Push every record, or none; the next night goes on from there. It runs after a failure, too.
set -euo pipefail
. "$(dirname "$0")/git-token.sh"
if [ -n "$(git for-each-ref --count=1 refs/goalseek)" ]; then
    git push --atomic --quiet origin 'refs/goalseek/*:refs/goalseek/*'
fi
