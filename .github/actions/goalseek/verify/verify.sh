#!/usr/bin/env bash
# Measure the claim again. Its exit code and what it prints are for the next step: this one has no token.
set -euo pipefail
night=$RUNNER_TEMP/goalseek/night code=0
read -ra options <<<"$OPTIONS"
goalseek verify "$night/gain.tar" "${options[@]}" 2>&1 | tee "$night/verify.txt" || code=${PIPESTATUS[0]}
echo "code=$code" >>"$GITHUB_OUTPUT"
