# shellcheck shell=bash
# Sourced: git authenticates to GITHUB_SERVER_URL by GH_TOKEN, in this process and its children only.
if [ -n "${GH_TOKEN:-}" ]; then
    GIT_CONFIG_VALUE_0="AUTHORIZATION: basic $(printf 'x-access-token:%s' "$GH_TOKEN" | base64 -w 0)"
    GIT_CONFIG_KEY_0="http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader"
    export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
fi
