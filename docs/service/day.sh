# A day of operation, as docs/service/operate.md tells it: from an empty folder on, with kbot and curl.
# Put the data folder of an older release beside it as `older` to see it upgraded.
set -eu
port=${PORT:-8700}
export KNOWLEDGE_BOT_BASE_URL=http://127.0.0.1:$port

say() { printf '\n# %s\n' "$1"; }
start() { # a data folder
    unset KNOWLEDGE_BOT_API_KEY # or the service would take it beside its own
    kbot serve --port "$port" --data "$1" --log-level warning >address.txt 2>log.txt &
    service=$!
    until curl --silent --fail "$KNOWLEDGE_BOT_BASE_URL/healthz" >health.json; do sleep 0.1; done
    KNOWLEDGE_BOT_API_KEY=$(cat "$1/api-key")
    export KNOWLEDGE_BOT_API_KEY
}
stop() { kill "$service" && wait "$service"; }
trap 'kill "$service" 2>/dev/null || true' EXIT

say 'Morning: start on an empty folder, and add what people ask about.'
start knowledge
tr ',' '\n' <health.json
echo
kbot add text --name 'Opening hours' --content 'The library opens at nine on Saturdays.' >added.txt 2>&1
wrong=$(kbot add text --name 'Salaries' --content 'The director earns a lot.' --json 2>chat.txt \
    | grep -o 'src_[0-9a-f]*')
kbot ask 'When does the library open on Saturdays?' 2>chat.txt

say 'A chat window gets a key that reads and asks, and adds nothing.'
reader=$(kbot serve keys add chat-window --role read --data knowledge 2>chat.txt)
kbot serve keys list --data knowledge
KNOWLEDGE_BOT_API_KEY=$reader kbot ask 'When does the library open on Saturdays?' 2>chat.txt
KNOWLEDGE_BOT_API_KEY=$reader kbot add text --name 'Mine' --content 'x' 2>&1 | grep -o 'The key.*anything. Nothing was done\.'

say 'Noon: a text that nobody should see is deleted, and no question finds it any more.'
curl --silent --request DELETE --header "X-API-KEY: $KNOWLEDGE_BOT_API_KEY" \
    --write-out '%{http_code}\n' "$KNOWLEDGE_BOT_BASE_URL/public/v1/sources/$wrong"
kbot ask 'What does the director earn?' 2>chat.txt

say 'Evening: a backup, while the service runs.'
kbot serve backup monday.tar --data knowledge 2>&1

say 'A colleague brings the folder of an older release: its database is brought to the present version.'
stop
if [ -d older ]; then
    start older
    grep ' warning ' log.txt | sed "s/^[^ ]* //; s|$PWD/||"
    stop
else
    echo 'There is no folder `older` here. This part is skipped.'
fi

say 'Night: somebody tidies up the disk, and the service does not begin with nothing.'
rm knowledge/knowledge.sqlite3*
kbot serve --port "$port" --data knowledge 2>&1 | sed "s|$PWD/||g"

say 'The backup makes a new folder, on which the service goes on.'
rm -r knowledge
kbot serve restore monday.tar --data knowledge 2>&1 | sed -n 1p # root is told whose it is, too
start knowledge
kbot ask 'When does the library open on Saturdays?' 2>chat.txt
curl --silent "$KNOWLEDGE_BOT_BASE_URL/metrics" | grep '^kbot_service_sources'
kbot serve keys list --data knowledge
stop
