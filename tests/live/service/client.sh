#!/bin/sh
# An application in shell: asks for an arm, plays it, tells what came of it. Only curl is needed.
# Usage: client.sh URL TOKEN_FILE
set -eu
url=$1
ask() {
    curl --silent --show-error --fail --max-time 10 --noproxy '*' \
        --header "Authorization: Bearer $(cat "$token_file")" \
        --header 'Content-Type: application/json' "$@"
}
token_file=$2

curl --silent --fail --max-time 10 --noproxy '*' "$url/openapi.json" | grep -q '"/v1/choose"'
chosen=$(ask --data '{"event": "shell-1"}' "$url/v1/choose")
again=$(ask --data '{"event": "shell-1"}' "$url/v1/choose")
test "$chosen" = "$again"
arm=$(printf '%s' "$chosen" | sed 's/.*"arm":"\([^"]*\)".*/\1/')
ask --data '{"event": "shell-1", "loss": 0.25}' "$url/v1/observe" >/dev/null

# Without a token it is not served.
status=$(curl --silent --output /dev/null --write-out '%{http_code}' --noproxy '*' "$url/v1/status")
test "$status" = 401
ask "$url/v1/status" | grep -q '"observed":1'
echo "$arm"
