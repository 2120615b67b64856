#!/usr/bin/env bash
# Push COMMIT to BRANCH, and open one draft pull request for it, or update the one that is open.
set -euo pipefail
. "$(dirname "$0")/git-token.sh"
night=$RUNNER_TEMP/goalseek/night base=refs/remotes/origin/$BASE
me=$(git var GIT_COMMITTER_IDENT | sed 's/.*<\(.*\)>.*/\1/') # as goalseek promote has made its commits
old=$(git rev-parse --verify --quiet "refs/remotes/origin/$BRANCH" || true)
if [ -n "$old" ]; then
    others=$(git log --format=%ce "$base..$old" | grep -vxF "$me" | sort -u || true)
    if [ -n "$others" ]; then
        echo "::error::the branch $BRANCH has commits of $others, and goalseek overwrites none: merge or rename it"
        exit 1
    fi
    if [ "$(git rev-parse "$old^{tree}")" = "$(git rev-parse "$COMMIT^{tree}")" ] &&
        git merge-base --is-ancestor "$base" "$old"; then
        COMMIT=$old # the same change, so its checks stay
    fi
fi
git push --quiet --force-with-lease="refs/heads/$BRANCH:$old" origin "$COMMIT:refs/heads/$BRANCH"

title="goalseek: $(sed -n '1s/^#* *//p' "$night/report.md" | tr -d '`')"
{
    head -c 50000 "$night/report.md" # a text has at most 65,536 characters
    printf '\n### The commits\n\n```text\n'
    head -c 10000 "$night/promote.txt"
    printf '```\n\n### The claim\n\n'
    printf '[gain.tar](%s), SHA-256 `%s`. Measure it again in a clone: `goalseek verify gain.tar`\n' \
        "$ARTIFACT" "$(sha256sum "$night/gain.tar" | cut -d ' ' -f 1)"
} >"$night/text.md"
number=$(gh pr list --head "$BRANCH" --base "$BASE" --state open --json number --jq '.[0].number // empty')
if [ -n "$number" ]; then
    gh pr edit "$number" --title "$title" --body-file "$night/text.md"
else
    gh pr create --draft --head "$BRANCH" --base "$BASE" --title "$title" --body-file "$night/text.md"
fi
echo "commit=$COMMIT" >>"$GITHUB_OUTPUT"
