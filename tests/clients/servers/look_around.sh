#!/bin/sh
# Writes down what a program in the sandbox could see and reach, then becomes the program.
#   look_around.sh FOLDER PROGRAM ARGUMENTS...
folder=$1
shift
# The home of a run is in a folder of the run's name.
run=$(basename "$(dirname "$HOME")")
out="$folder/$run.$(date +%s%N)"
mkdir -p "$out"
env >"$out/environment"
for file in "$@"; do printf '%s\n' "$file"; done >"$out/arguments"
cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' >"$out/processes"
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' >"$out/environments"

answer() {
    printf '%s ' "$1"
    shift
    curl --silent --output /dev/null --max-time 5 --write-out '%{http_code}\n' "$@"
}
gateway=http://drawgate.internal
{
    answer own-token -H "Authorization: Bearer $DRAWGATE_RUN_TOKEN" "$gateway/mcp" -X DELETE
    answer no-token "$gateway/mcp" -X POST
    answer forged -H 'Authorization: Bearer dgr_0000' "$gateway/mcp" -X POST
    answer other-path "$gateway/metrics"
    answer other-port "$gateway:8080/mcp"
    answer relay-without-token "$gateway/relay/anthropic/v1/messages" -d '{}'
    answer relay-forged -H 'x-api-key: dgr_0000' "$gateway/relay/anthropic/v1/messages" -d '{}'
    answer relay-other-provider -H "x-api-key: $DRAWGATE_RUN_TOKEN" "$gateway/relay/other/v1/messages" \
        -d '{"model":"fake"}'
    answer relay-other-path -H "x-api-key: $DRAWGATE_RUN_TOKEN" "$gateway/relay/anthropic/v1/files" -d '{}'
    if [ -f "$folder/foreign" ]; then
        answer foreign -H "Authorization: Bearer $(cat "$folder/foreign")" "$gateway/mcp" -X DELETE
    fi
    answer internet https://example.com/
    answer this-machine http://127.0.0.1:80/
    answer no-proxy --noproxy '*' http://1.1.1.1/
} >"$out/reached" 2>&1
exec "$@"
