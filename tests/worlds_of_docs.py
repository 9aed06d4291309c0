"""The worlds in which the commands of each page run: scripts that prepare people, servers and files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.conftest import ROOT


class World(NamedTuple):
    """The world of a page: a script before each block, and replacements for names on the page."""

    before: Mapping[int, str]
    spelled: Mapping[str, str] = MappingProxyType({})
    has_hub: bool = False


SERVER = {"git@host:team/": "$T/server/"}
SHOP = "cd $T/shop && kgd up -q"
SHARED = """
share() { git init -q --bare -b main "$T/server/$1.git"; kgd remote add origin "$T/server/$1.git" -q; kgd sync -q; }
"""
HOMES = """
ann() { export KGD_HOME=$T/home; cd $T/ann/infra; }
bob() { export KGD_HOME=$T/home/of-bob; cd $T/bob/infra; }
"""
WORLDS = {
    "README.md": World(
        {
            0: """
        mkdir $T/billing && cd $T/billing && kgd up --standalone -q && kgd put limits --summary "who may spend what" -q
        """
        },
        {"kgd join https://kgd.example.org": "kgd join $HUB <$TOKEN"},
        has_hub=True,
    ),
    "docs/code.md": World(
        {
            0: f"""
        cd $T/shop
        printf 'class Money:\\n    def zero(self):\\n        return 0\\n' >src/money.py
        printf 'class Order:\\n    def validate(self):\\n        "How an order is validated."\\n' >src/orders.py
        mkdir -p src/shop; printf 'from shop.orders import Order\\n' >src/shop/__init__.py
        printf 'class Order:\\n    pass\\n' >src/shop/orders.py
        git add .; {SHOP}
        for name in orders.py/Order.validate shop/orders.py/Order; do
            until kgd get symbol://shop/src/$name -q 2>/dev/null; do sleep 0.1; done
        done
        """
        }
    ),
    "docs/code-history.md": World(
        {
            0: f"""
        cd $T/shop
        printf 'def price(amount):\\n    return round(amount, 2)\\n' >src/money.py
        git add .; git commit -qm "Round prices once\n\nTwo roundings lost a cent in every tenth order."; {SHOP}
        """
        }
    ),
    "docs/compression.md": World(
        {
            0: f"""{SHOP}
        kgd put auth --name "Auth Service" --summary "issues tokens" -q
        kgd put old/auth --name "Auth Service" --summary "issued tokens" -q
        kgd put facts/port --summary "it listens on 7601" -q --relations supersedes:facts/port-2019
        kgd put facts/port-2019 --summary "it listens on 80" -q
        kgd put ledger --summary "the debts" -q
        kgd put till --summary "takes money" -q --relations uses:ledger@0.5 --relations related_to:ledger@0.5
        """
        }
    ),
    "docs/exchange.md": World(
        {
            0: f"""{SHOP}
        mkdir notes; printf '# Leave\\n\\nThirty days, see [[Keys]].\\n' >notes/Leave.md
        printf '# Keys\\n' >notes/Keys.md
        kgd put services/auth --summary "issues tokens" -q
        """
        }
    ),
    "docs/git.md": World(
        {
            0: f"""{SHARED}
        mkdir $T/ann && cd $T/ann && kgd up --standalone --id knowledge -q && kgd put one --summary x -q
        share knowledge
        git init -q --bare -b main $T/server/shop.git; cd $T/shop; git remote add origin $T/server/shop.git
        git push -q origin HEAD:main; kgd up -q; kgd share -q; kgd sync -q; cd $T
        """,
            1: "",
            2: "cd $T/server/knowledge.git",
        },
        SERVER,
    ),
    "docs/guides/agents.md": World(
        {0: f"mkdir -p $HOME/.cursor $T/shop/scripts; cp {ROOT}/scripts/mcp_client.py $T/shop/scripts; {SHOP}"}
    ),
    "docs/guides/two-teams.md": World(
        {
            0: f"git init -q --bare -b main $T/server/infra.git; {HOMES} mkdir -p $T/ann $T/bob $T/cleo; cd $T/ann",
            1: """kgd put services/keys --summary 'holds the signing keys' -q; kgd sync -q
        export KGD_HOME=$T/home/of-bob; cd $T/bob""",
            2: "kgd sync -q; cd $T/cleo",
            3: "ann",
            4: """kgd sync -q; bob; kgd sync -q; mv $T/server/infra.git $T/server/away.git
        kgd put services/keys --name "Bob's" -q; ann; kgd put services/keys --name "Ann's" -q
        mv $T/server/away.git $T/server/infra.git; kgd sync -q || true; bob
        until kgd conflicts | grep -q services/keys; do kgd sync -q || true; done""",
            5: "",
        },
        SERVER,
    ),
    "docs/ingest.md": World(
        {
            0: f"""{SHOP}
        mkdir -p $HOME/handbook/rules; printf '# Handbook\\n\\nWhat holds for all of us.\\n' >$HOME/handbook/README.md
        printf '# Leave\\n\\nWho works here needs rest.\\n\\n## How many days\\n\\nThirty days of leave a year.\\n' \
            >$HOME/handbook/rules/leave.md
        """
        }
    ),
    "docs/memories.md": World({0: f"{SHOP}; mkdir -p src/payments; echo x >src/payments/a.py; echo '# Why' >notes.md"}),
    "docs/messages.md": World(
        {
            0: f"""{SHOP}
        mkdir -p $HOME/Downloads $HOME/.claude/projects/-home-me-shop docs/releases
        python3 - <<'END'
import json, os, pathlib
home, at = pathlib.Path(os.environ["HOME"]), "2026-11-20T10:00:0%dZ"
def said(who, text, n): return {{"uuid": f"m{{n}}", "sender": who, "text": text, "created_at": at % n}}
export = [{{"uuid": "c1", "name": "Locks", "created_at": at % 0, "updated_at": at % 2,
            "chat_messages": [said("human", "Why row locks?", 1), said("assistant", "Two writers.", 2)]}}]
(home / "Downloads/conversations.json").write_text(json.dumps(export))
for place, id in ((home / ".claude/projects/-home-me-shop/a.jsonl", "s1"), (pathlib.Path("session.jsonl"), "s2")):
    lines = [{{"type": who, "sessionId": id, "uuid": f"{{id}}{{n}}", "timestamp": at % n,
              "message": {{"role": who, "content": "text"}}}} for n, who in enumerate(("user", "assistant"))]
    place.write_text("".join(json.dumps(line) + "\\n" for line in lines))
pathlib.Path("call.md").write_text("Ann: Is it May?\\n\\nBob: June.\\n")
pathlib.Path("docs/releases/2026-01-02.md").write_text("# 1.0\\n\\nWe take row locks now.\\n")
pathlib.Path("docs/releases/2026-02-03.md").write_text("# 1.1\\n\\nAnd give them back.\\n")
END
        """
        }
    ),
    "docs/scopes.md": World(
        {
            0: """mkdir $T/mine && cd $T/mine && kgd up --standalone --id billing -q && kgd join $HUB <$TOKEN -q
        kgd put services/invoices --summary "what billing needs of it" -q
        echo '[{"op": "upsert", "uri": "concept://infra/services/learned", "summary": "learned"}]' >changes.json
        """,
            2: """KGD_HOME=$T/hub/home kgd put services/tax --summary 19 --name Tax -q -C $T/hub/infra
        echo '[{"op": "upsert", "uri": "concept://infra/services/third", "summary": "third"},
            {"op": "upsert", "uri": "concept://infra/services/tax", "summary": "20", "name": "VAT"}]' >third.json
        kgd submit infra --changes third.json -m "the third"
        export KGD_HOME=$T/hub/home; cd $T/hub/infra
        SEEN=$(git rev-parse --short=10 refs/heads/proposals/billing-agent-1)""",
        },
        {"4f1c09a2b7": "$SEEN", "4f1c09a2": "$(git -C $T/hub/infra rev-parse refs/kgd/head)"},
        has_hub=True,
    ),
    "docs/server-memory.md": World(
        {
            0: """echo '{"type": "entity", "name": "Ann", "entityType": "person", "observations": []}' """
            ">$T/memory.jsonl",
            1: "cp $T/memory.jsonl .",
        },
        {"/path/to/": "$T/"},
    ),
    "docs/sync.md": World(
        {
            0: "git init -q --bare -b main $T/server/knowledge.git; mkdir $T/k && cd $T/k && kgd up --standalone -q",
            1: f"""{SHARED}
        mkdir $T/a && cd $T/a && kgd up --standalone --id alpha -q && kgd put one --summary x -q && share alpha
        URL=$T/server/alpha.git; export KGD_HOME=$T/home/of-bob; cd $T/shop && kgd up --id beta -q
        kgd put two --summary y -q; sleep 1
        """,
        },
        SERVER,
    ),
    "docs/ui.md": World({0: f"{SHOP}; export BROWSER=true"}),
}
