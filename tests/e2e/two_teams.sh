#!/bin/sh
# Two teams, two daemons, a colleague with plain git and `kgd install`, and one who has never heard of kgd: one
# workspace for all of them. Everybody edits, also the same things at the same time; in the end all hold the same tree,
# and everything anyone wrote is in it or in a conflict.
#
# Usage: sh tests/e2e/two_teams.sh FOLDER [URL]
#
# FOLDER is made and holds everything, kgd's homes included. URL is an empty git repository that all can push to; without
# it a bare directory is made. For a hub, TOKEN names a file with the credential, and PLAIN_URL is the address that plain
# git clones from, credential included. KGD is the program, if not the PATH's.
# The guide docs/guides/two-teams.md goes through it step by step.
set -eu

folder=$1
url=${2:-}
kgd=${KGD:-kgd}
mkdir -p "$folder"
cd "$folder"
folder=$PWD
if [ -z "$url" ]; then
    git init --quiet --bare -b main server.git
    url=$folder/server.git
fi
plain=${PLAIN_URL:-$url}
token=${TOKEN:+--token file:$TOKEN}

say() { printf '\n== %s\n' "$*"; }
ann() { KGD_HOME="$folder/ann-home" "$kgd" -C "$folder/ann" "$@"; }
bob() { KGD_HOME="$folder/bob-home" "$kgd" -C "$folder/bob" "$@"; }
cleo() { git -C "$folder/cleo" "$@"; }
dan() { git -C "$folder/dan" "$@"; }
named() {
    git -C "$folder/$1" config user.name "$1"
    git -C "$folder/$1" config user.email "$1@example.org"
}
all_sync() { ann sync --quiet && bob sync --quiet && ann sync --quiet; }
trap 'ann down --quiet; bob down --quiet' EXIT

say "Ann's team has a workspace and shares it"
mkdir -p ann
ann up --standalone --id infra --quiet
named ann
# shellcheck disable=SC2086  # no token is no word
ann remote add origin "$url" $token
ann put services/auth --summary "issues session tokens" --message "auth: what it is for"
ann put services/keys --summary "holds the signing keys"
ann put services/mail --summary "sends mail"
ann put services/cron --summary "runs jobs at night"
ann link services/auth services/keys --type depends_on --weight 0.5
ann sync

say "Bob's team clones it with git, and kgd finds it"
git clone --quiet "$plain" bob
named bob
bob up --quiet
# shellcheck disable=SC2086
bob remote add team "$url" $token
bob get services/auth

say "Cleo has plain git and kgd's merge; Dan has git and an editor"
git clone --quiet "$plain" cleo
named cleo
(cd cleo && "$kgd" install)
git clone --quiet "$plain" dan
named dan

say "edits of different fields, at the same time: they merge"
ann put services/auth --content "Never cache a key longer than its ttl."
bob put services/auth --summary "issues and checks session tokens"
all_sync
ann get services/auth

say "edits of the same field: both are kept, and somebody decides"
# Where the daemons agree before the second edit is made it goes on from the first: then they edit once more.
n=0
while [ "$n" -lt 20 ] && bob conflicts services/keys --json | grep -q '"conflicts": *\[\]'; do
    n=$((n + 1))
    ann put services/keys --name "Key service of Ann, $n" &
    bob put services/keys --name "Key service of Bob, $n"
    wait
    all_sync
done
bob conflicts

say "a deletion against an edit, and a new name against an edit"
cleo pull --quiet
ann rm services/cron --message "cron is gone"
ann mv services/mail services/post
ann sync
sed -i 's/^summary:.*/summary: runs jobs at night and on Sundays/' cleo/nodes/concept/services/cron.yaml
sed -i 's/^summary:.*/summary: sends mail and faxes/' cleo/nodes/concept/services/mail.yaml
cleo commit --quiet --all --message "jobs and faxes"
cleo pull --quiet --no-edit
cleo push --quiet

say "Dan edits a file, commits, pulls and pushes, as always"
dan pull --quiet
printf 'uri: concept://infra/services/dns\nsummary: answers for example.org\n' >dan/nodes/concept/services/dns.yaml
dan add --all
dan commit --quiet --message "dns"
dan pull --quiet --no-rebase --no-edit
dan push --quiet

say "somebody settles what is open"
all_sync
ann conflicts
id=$(ann conflicts services/keys --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["conflicts"][0]["id"])')
ann resolve "$id" --take a --message "Ann and Bob agreed"
all_sync

say "in the end"
cleo pull --quiet --no-edit
dan pull --quiet --no-rebase --no-edit
tree=$(git -C ann rev-parse 'refs/kgd/head^{tree}')
for who in bob cleo dan; do
    case $who in bob) ref=refs/kgd/head ;; *) ref=HEAD ;; esac
    other=$(git -C $who rev-parse "$ref^{tree}")
    [ "$tree" = "$other" ] || { echo "ann and $who hold different trees" >&2; exit 1; }
done
for words in "Never cache a key" "issues and checks" "Key service of" "on Sundays" "mail and faxes" "answers for"; do
    git -C ann grep --quiet "$words" refs/kgd/head -- || { echo "'$words' is lost" >&2; exit 1; }
done
ann conflicts
echo "all hold the tree $tree, and nothing is lost"
