#!/bin/sh
# A working day with kgd: a task is planned with the files it is about, an agent asks what it must know, works, and
# writes back what it learned; a colleague pulls and is told; then the code changes, and what was learned about it shows as
# stale until a person checks it.
#
# Usage: sh tests/e2e/working_day.sh FOLDER
#
# FOLDER is made and holds everything, kgd's homes included. KGD is the program, if not the PATH's.
# docs/guides/agent-memory.md tells of the same day, with every command.
set -eu

folder=$1
kgd=${KGD:-kgd}
mkdir -p "$folder"
cd "$folder"
folder=$PWD

say() { printf '\n== %s\n' "$*"; }
ann() { KGD_HOME="$folder/ann-home" "$kgd" -C "$folder/ann/shop" "$@"; }
ben() { KGD_HOME="$folder/ben-home" "$kgd" -C "$folder/ben/shop" "$@"; }
named() {
    git -C "$folder/$1/shop" config user.name "$1"
    git -C "$folder/$1/shop" config user.email "$1@example.org"
}
# What is printed must have every one of the lines that follow; patterns as grep reads them.
shows() {
    said=$1
    shift
    for wanted in "$@"; do
        printf '%s\n' "$said" | grep -q -e "$wanted" || { printf '%s\n\nbut not: %s\n' "$said" "$wanted" >&2; exit 1; }
    done
    printf '%s\n' "$said"
}
# The same, asked again until it is so: that code has changed is noticed a moment later.
soon() {
    wanted=$1
    shift
    tries=0
    until "$@" | grep -q -e "$wanted"; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { "$@"; printf '\nbut not: %s\n' "$wanted" >&2; exit 1; }
        sleep 0.1
    done
    "$@"
}
trap 'ann down --quiet || :; ben down --quiet || :' EXIT

say "There is a code repository on a server"
git init --quiet --bare -b main shop.git
git clone --quiet shop.git ann/shop 2>/dev/null # it says that the repository is empty
named ann
mkdir -p ann/shop/src/payments
cat >ann/shop/src/payments/webhook.py <<'CODE'
def handle(event, store):
    store.book(event["amount"])
CODE
cat >ann/shop/src/payments/store.py <<'CODE'
class Store:
    def book(self, amount):
        print("booked", amount)
CODE
git -C ann/shop add -A
git -C ann/shop commit --quiet -m "payments"
git -C ann/shop push --quiet origin HEAD

say "Ann gives it a memory, and her team a share in it"
ann up --quiet
shows "$(ann prime)" "Nothing is known here yet" "Worth recording first"
ann share --quiet
ann put --type atom --name Payments --data '{"paths": ["src/payments/**"]}' \
    --content "Stripe only. Amounts are in cents, everywhere." --message "payments: what holds there"

say "A task is planned, with the files it is about"
ann task add "Book each event once" --objective "Stripe delivers webhook events twice; nothing may be booked twice." \
    --accept "a repeated event changes nothing" \
    --file src/payments/webhook.py --file src/payments/store.py --file src/mail/receipt.py
shows "$(ann prime)" "Book each event once" "Payments"

say "Her agent asks what it must know before it touches that"
shows "$(ann context --task "Book each event once")" "Amounts are in cents" "src/mail/receipt.py"
ann task start "Book each event once"

say "It works"
cat >ann/shop/src/payments/webhook.py <<'CODE'
def handle(event, store):
    if store.is_new(event["id"]):
        store.book(event["amount"])
CODE
git -C ann/shop commit --quiet -am "payments: an event is booked once"
git -C ann/shop push --quiet origin HEAD

say "What it learned goes in with the end of the task"
shows "$(ann task done "Book each event once" --summary "Events are booked once, by their id" \
    --notes "Seen ids are kept for a week, since Stripe retries for three days." \
    --gotcha "src/payments/webhook.py: Stripe delivers an event again for three days, also after a 200" \
    --pattern "A handler asks the store is_new(event id) before it does anything")" \
    "recorded 2 nodes" "Task completed. Consider updating the knowledge graph."
ann sync --quiet

say "Ben has never worked on payments. He pulls, and is told"
git clone --quiet shop.git ben/shop
named ben
ben up --quiet
ben share --quiet
shows "$(ben prime)" "Stripe delivers an event again" "Payments"
shows "$(ben context src/payments/webhook.py)" "Amounts are in cents" "Stripe delivers an event again for three days" \
    "A handler asks the store is_new"
shows "$(ben task show "Book each event once")" ": completed" "Seen ids are kept for a week"
shows "$(ben stale)" "no stale facts"

say "He changes the code that the trap is about"
cat >ben/shop/src/payments/webhook.py <<'CODE'
def handle(event, store, queue):
    queue.later(store.book_once, event["id"], event["amount"])
CODE
git -C ben/shop commit --quiet -am "payments: events are queued"
git -C ben/shop push --quiet origin HEAD
changed=$(git -C ben/shop rev-parse --short=10 HEAD)
soon "stale: src/payments/webhook.py changed in $changed" ben stale
soon "stale: src/payments/webhook.py changed in $changed" ben context src/payments/webhook.py

say "He reads it again: the trap is still there, and he says so"
gotcha=$(ben recall "Stripe delivers again" --json | grep -o 'gotcha://shop/[^"]*' | head -n 1)
ben stale --verify "$gotcha"
shows "$(ben stale)" "no stale facts"
ben sync --quiet

say "Ann pulls his code, and has his word for it"
git -C ann/shop pull --quiet origin main
ann sync --quiet
soon "no stale facts" ann stale
shows "$(ann history "$gotcha")" "ben" "ann"
if ann context src/payments/webhook.py | grep -q "not verified"; then
    echo "it is verified, and shown as if it were not" >&2
    exit 1
fi

say "what was learned is known, and known to hold"
