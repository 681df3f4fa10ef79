# A day of operation, as docs/service/operate.md tells it: from an empty folder on, with kbot and curl.
set -eu
port=${PORT:-8700}
export KNOWLEDGE_BOT_BASE_URL=http://127.0.0.1:$port
export KNOWLEDGE_BOT_API_KEY=the-key-of-whoever-manages-it

say() { printf '\n# %s\n' "$1"; }
start() {
    kbot serve --port "$port" --data knowledge --config kbot.toml --log-level info >address.txt 2>log.txt &
    service=$!
    until curl --silent --fail "$KNOWLEDGE_BOT_BASE_URL/healthz" >health.json; do sleep 0.1; done
}
stop() { kill "$service" && wait "$service"; }
trap 'kill "$service" 2>/dev/null || true' EXIT

say 'Morning: start on an empty folder, and add what people ask about.'
printf '[[keys]]\nname = "owner"\nrole = "manage"\nkey = "%s"\n' "$KNOWLEDGE_BOT_API_KEY" >kbot.toml
chmod 600 kbot.toml
start
tr ',' '\n' <health.json
echo
kbot add text --name 'Opening hours' --content 'The library opens at nine on Saturdays.' >added.txt 2>&1
wrong=$(kbot add text --name 'Salaries' --content 'The director earns a lot.' --json 2>chat.txt \
    | grep -o 'src_[0-9a-f]*')
kbot ask 'When does the library open on Saturdays?' 2>chat.txt

say 'A chat window gets a key that reads and asks, and adds nothing.'
chat_key=$(kbot serve keys add chat-window --role read --data knowledge 2>chat.txt)
KNOWLEDGE_BOT_API_KEY=$chat_key kbot ask 'When does the library open on Saturdays?' 2>chat.txt
KNOWLEDGE_BOT_API_KEY=$chat_key kbot add text --name 'Mine' --content 'x' 2>&1 \
    | grep -o 'The key.*Nothing was done\.'

say 'Noon: a text that nobody should see is deleted, and no question finds it any more.'
curl --silent --request DELETE --header "X-API-KEY: $KNOWLEDGE_BOT_API_KEY" \
    --write-out '%{http_code}\n' "$KNOWLEDGE_BOT_BASE_URL/public/v1/sources/$wrong"
kbot ask 'What does the director earn?' 2>chat.txt

say 'Evening: a backup, while the service runs.'
kbot serve backup monday --data knowledge 2>&1
stop

say 'Night: somebody tidies up the disk, and the service does not begin with nothing.'
rm knowledge/knowledge.sqlite3*
env -u KNOWLEDGE_BOT_API_KEY kbot serve --port "$port" --data knowledge --config kbot.toml 2>&1 | sed "s|$PWD/||g"

say 'The backup makes a new folder, on which the service goes on.'
rm -r knowledge
kbot serve restore monday --data knowledge 2>&1
start
kbot ask 'When does the library open on Saturdays?' 2>chat.txt
curl --silent "$KNOWLEDGE_BOT_BASE_URL/metrics" | grep '^kbot_service_sources'
stop
