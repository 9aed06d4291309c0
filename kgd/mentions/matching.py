"""Names in a text, word by word; identifiers, paths and URIs in it, letter by letter; and the names of a node.

The functions are pure: they take a text and a dictionary, and return keys. They take linear time, because the text is
untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kgd.errors import KgdError
from kgd.index.change_feed import Indexed
from kgd.index.mentions_file import Key
from kgd.index.words import STOPWORDS, parts_of
from kgd.model.uri import Uri, path_of, scheme_of

LONGEST_NAME = 12
"""Maximum number of words in a name; anything longer is a sentence."""
LEAST_LETTERS = 4
"""Minimum number of letters in a name of one word; one fewer if it is in capitals, as in JWT."""
LONGEST_WRITTEN = 300
MOST_WRITTEN = 2_000
"""Maximum number of paths, URIs and identifiers to read in one text."""

WRITTEN = "="
"""First character of the key of a path, a URI or an identifier; these are matched letter by letter."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MARKS = "`@#"
"""Punctuation that marks the word directly after it as a name."""
_WORD = re.compile(rf"[{_MARKS}]?(?:[{_UNSPACED}]|[^\W_{_UNSPACED}]+)|\n[ \t]*\n")
_URI = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`)\]}|\\]{1,300}")
_PATH = re.compile(
    r"(?<![\w./-])(?:\.{0,2}/)?(?:[\w@+.-]{1,100}/){1,30}[\w@+.-]{0,100}\w"
    r"|(?<![\w./-])[\w-]{1,100}(?:\.[\w-]{1,60}){1,4}\b"
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]{0,100}(?:(?:\.|::|#)[A-Za-z_$][\w$]{0,100}){0,20}")
_HUMP = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9]_+[A-Za-z0-9]|^_+[A-Za-z]")
_FILE = re.compile(r"[\w@+-][\w@+.-]*\.[A-Za-z][A-Za-z0-9]{0,9}")
_TELLING = re.compile(r"[_/`$]|\.\w|::|#\w|\w\(|[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
"""Signs of an identifier, a path or a URI; most words of prose have none and are skipped."""
_FENCE = re.compile(r"^([ \t>]*(?:`{3,}|~{3,}))[^\n`]*$", re.MULTILINE)
"""The first line of a code block, whose language is not a name."""
_ENDINGS = """
adoc bash c cc cfg conf cpp cs css csv cxx dart docx ex exs gradle graphql go h hpp hs html htm ini ipynb java jl js
json jsx kt kts less lock lua m md mdx mjs ml mod pdf php pl png pptx proto ps1 py pyi r rb rs rst sass scala scss sh
sql svelte svg swift tex tf toml ts tsx txt vue xlsx xml yaml yml zig
"""
_EXTENSIONS = frozenset(_ENDINGS.split())

_PROGRAMS = """
abstract action actions add address alias all any api app append apply area args argument arguments array assert
async attribute attributes await base begin block body bool boolean branch break buffer build button byte bytes
cache call callback case cast catch change changes char check child children class classes clean clear click client
clone close code collection column columns command commit compare compile complete component config configure
connect connection const constant content context continue control convert copy core count create current cursor
data database date datetime debug decode default define del delete description detail details dict dictionary
directory disable display document domain done double download draft driver element else empty enable encode end
entry enum env environment equal error errors event events except exception exec execute exists exit export extend
extra fail failure false feature fetch field fields file files filter finally find finish first fix flag float flush
folder font for form format forward frame from func function functions generate generator get global group groups
handle handler hash head header headers help hidden history hook host html http icon id image import index info init
inner input insert instance int integer interface internal issue item items iter iterator job join json key keys
kind label lambda language last layer layout left length level lib library limit line lines link links list lists
load local location lock log logger login long loop main make manager map margin mark match max memory menu merge
message messages meta method methods min mock mode model models module modules move name names new next node nodes
none note null number object objects offset open operation option options order output override package page pages
param parameter parameters parent parse parser part patch path paths pattern pause permission point pop port
position post prefix present prev previous print private process profile program project property protected provider
public pull push put query queue raise random range read reader ready record records reduce ref reference refresh
register release reload remove render replace report request requests require reset resolve resource response result
results resume return reverse right role root route row rows rule rules run runner save scan schema scope screen
script search section select self send server service session set sets setting settings setup shape shared short
show shutdown sign size skip sleep sort source split stack stage start state static status step steps stop storage
store stream string strings struct style submit success suffix sum summary super support switch symbol sync system
table tables tag tags target task tasks template temp test tests text theme thread throw time timeout title today
toggle token top total trace track transaction transform true tuple type types undefined union unit unique unlock
update upload url usage use user users utils valid validate value values var variable version view views void wait
warning watch web while width with word work worker wrap write writer yield zip
"""
_PROSE = """
able about above across actual after again against ago ahead almost alone along already also although always among
another answer appear around ask available away back bad became because become been before behind being below best
better between beyond big both bring brought business but came can cannot careful certain chance clearly close
common company consider could country course day days deal decision decide did different does down during each early
easy either enough even ever every everything example examples face fact far few final following found four free
full further gave general give given goes going good great had half hand hard has have having here high him his home
house how however idea important include including indeed into its just keep kept kind know known large late later
least less let life like likely little look looking low made many may maybe mean means might minute moment money
month more most much must near nearly necessary need never nothing now off often old once one only other others our
out outside over overview own particular people perhaps person place plan possible power probably problem problems
public question questions quick quite rather real really reason recent right said same saw say says second see seem
seen several shall should side simple since small some something sometimes soon still story such sure take taken
talk tell ten than thank that the their them then there these they thing things think third this those though
thought three through thus today together told tomorrow too took toward tried true try turn two under until upon
used useful using usually very want was water way ways week well went were what when where whether which who whole
why will within without wonder words world would year years yes yesterday yet you young your
"""

COMMON_WORDS = frozenset((_PROGRAMS + _PROSE).split())
"""Words too common in English prose and in programs to be names unless they are marked as such."""


class Dictionary(Protocol):
    """The known names."""

    def longest(self, firsts: Collection[str]) -> dict[str, int]:
        """For each first word of a name, the number of words in the longest name that begins with it."""

    def known(self, keys: Collection[str]) -> Collection[str]:
        """The keys that are names."""


class Words(NamedTuple):
    """The words of a text, folded and as written; an empty word separates phrases."""

    folded: list[str]
    written: list[str]
    """The words as written, each with the mark before it, if there is one."""


def words_of(texts: Iterable[str]) -> Words:
    """The words of several texts, each of which is a separate phrase."""
    written = [word for text in texts for word in (*_WORD.findall(text), "\n")]
    return Words([word.lstrip(_MARKS).lower() if word[0] != "\n" else "" for word in written], written)


def found_in(texts: Sequence[str], dictionary: Dictionary) -> set[str]:
    """The keys in these texts: names of the dictionary, and all paths and URIs."""
    texts = [_FENCE.sub(r"\1", text) for text in texts]
    return phrases_in(words_of(texts), dictionary) | written_in(texts, dictionary)


def phrases_in(words: Words, dictionary: Dictionary) -> set[str]:
    """The longest names, from left to right, without overlaps."""
    folded = words.folded
    longest = dictionary.longest({word for word in folded if word})
    if not longest:
        return set()
    candidates = {key for at, word in enumerate(folded) if word in longest for key in _from(folded, at, longest[word])}
    known = dictionary.known(candidates)
    found, at = set[str](), 0
    while at < len(folded):
        step = 1
        if folded[at] in longest:
            for size in range(min(longest[folded[at]], len(folded) - at), 0, -1):
                key = " ".join(folded[at : at + size])
                if key in known and _is_meant(words, at, size):
                    found.add(key)
                    step = size
                    break
        at += step
    return found


def _from(folded: list[str], at: int, longest: int) -> Iterator[str]:
    """The runs of words from one place to the end of the phrase."""
    key = ""
    for word in folded[at : at + longest]:
        if not word:
            return
        key = f"{key} {word}" if key else word
        yield key


def _is_meant(words: Words, at: int, size: int) -> bool:
    """Whether a match is meant as a name.

    A match of several significant words is a name. A single word must look like a name, and a common word must be
    marked as code.
    """
    telling = [n for n in range(at, at + size) if words.folded[n] not in STOPWORDS]
    if not telling:
        return False
    if len(telling) > 1:
        return True
    word = words.written[telling[0]]
    if size == 1 and len(word) < LEAST_LETTERS:
        return word.isupper() and len(word) == LEAST_LETTERS - 1
    if size == 1 and words.folded[at] in COMMON_WORDS and not word.isupper():
        return word[0] in _MARKS
    return word[0] in _MARKS or _as_a_name(word)


def _as_a_name(word: str) -> bool:
    """Whether a word is capitalised, unlike ordinary words of prose, or is in a script without capitals."""
    return not word.islower() or any(c.isdigit() for c in word)


def phrase_key(name: str) -> list[str] | None:
    """The folded words of a name, folded as in full text; None if it cannot be a name."""
    written = [word.lstrip(_MARKS) for word in _WORD.findall(name) if word[0] != "\n"]
    folded = [word.lower() for word in written]
    telling = [word for word in folded if word not in STOPWORDS]
    if not telling or len(folded) > LONGEST_NAME:
        return None
    if len(folded) == 1:
        word = written[0]
        if word.isdigit() or len(word) < LEAST_LETTERS - (1 if word.isupper() else 0):
            return None
    return folded


# ---- identifiers, paths and URIs


def written_in(texts: Sequence[str], dictionary: Dictionary) -> set[str]:
    """Keys of identifiers, paths and URIs. Paths and URIs are included even if there is no such node yet."""
    always, tokens = set[str](), dict[str, None]()
    for piece in dict.fromkeys(piece for text in texts for piece in text.split()):
        if not _TELLING.search(piece):
            continue
        for uri in _URI.findall(piece):
            always.add(WRITTEN + uri.rstrip(".,:;!?*_"))
        for match in _PATH.finditer(piece):
            path = match[0].removeprefix("./").lstrip("/")
            while path.startswith("../"):
                path = path[3:]
            if is_file(path) and len(path) <= LONGEST_WRITTEN:
                always.add(WRITTEN + path)
        tokens.update(dict.fromkeys(_identifiers(piece)))
    some = list(tokens)[:MOST_WRITTEN]
    asked = {key for token in some for key in (*identifier_keys(token), *spoken_keys(token))}
    known = dictionary.known(asked) if asked else ()
    found = {key for token in some if (key := next((k for k in identifier_keys(token) if k in known), ""))}
    found |= {key for token in some for key in spoken_keys(token) if key in known}
    return set(sorted(always)[:MOST_WRITTEN]) | found


def is_file(path: str) -> bool:
    """Whether the text looks like a file name, with a known extension."""
    name = path.rpartition("/")[2]
    return bool(_FILE.fullmatch(name)) and name.rpartition(".")[2].lower() in _EXTENSIONS


def _identifiers(text: str) -> Iterator[str]:
    for match in _IDENTIFIER.finditer(text):
        token, start, end = match[0], match.start(), match.end()
        before, behind = text[max(0, start - 1) : start], text[end : end + 1]
        is_code = before == "`" or (behind == "(" and token not in COMMON_WORDS)
        if is_code or _HUMP.search(token) or "." in token or ":" in token:
            yield token.replace("::", ".").replace("#", ".")


def spoken_keys(token: str) -> list[str]:
    """The parts of a dotted name as ordinary words: ``LedgerWriter`` as "ledger writer"."""
    split = (parts_of(part) for part in token.split("."))
    return [" ".join(parts).lower() for parts in split if 1 < len(parts) <= LONGEST_NAME]


def identifier_keys(token: str) -> list[str]:
    """A dotted name and each of its suffixes, the longest first. A common word is included only with its qualifier."""
    parts = token.split(".")
    end = len(parts) - (len(parts) > 1 and parts[-1] in COMMON_WORDS)
    start = 1 if parts[0] in ("self", "this", "cls") and len(parts) > 1 else 0
    return [WRITTEN + ".".join(parts[n:]) for n in range(start, end)]


PARTS = frozenset({"chunk", "message"})
"""Schemes and types of parts, which do not have names."""
CODE = "symbol"
MODULES = 3
"""Maximum number of folders and modules before a symbol in its longest name."""

_TITLE = re.compile(r"(?P<name>.*\S)\s*\([^()]{1,60}\)\s*")
_ENDING = re.compile(r"\.\w{1,10}$")


def keys_of(text: Indexed) -> set[Key]:
    """The keys of a node: its name and aliases; for a title such as ``X (film)``, also X; for a symbol, its spelling in
    programs, with and without its modules; for a file, its path and each suffix of the path."""
    scheme = scheme_of(text.uri)
    if is_part(text):
        return set()
    if scheme in ("file", "dir"):
        return {_written(end) for end in path_ends(place(text.uri))} if scheme == "file" else set()
    if scheme == CODE or text.type == CODE:
        return {_written(name) for name in _symbol(text)}
    found = set[Key]()
    for name in (text.name, *text.aliases):
        found |= set(_named(name))
    return found


def is_part(text: Indexed) -> bool:
    return scheme_of(text.uri) in PARTS or text.type in PARTS


def _named(name: str) -> Iterator[Key]:
    forms = [name]
    if title := _TITLE.fullmatch(name):
        forms.append(title["name"])
    for form in forms:
        if words := phrase_key(form):
            key = " ".join(words)
            yield Key(key, words[0], len(words), f"{form}\n{key}")


def place(uri: Uri) -> str:
    """The path of an owned URI; empty if it cannot be decoded."""
    try:
        return path_of(uri)
    except KgdError:
        return ""


def path_ends(path: str) -> list[str]:
    """A path and each of its suffixes, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[n:]) for n in range(len(parts))]


def _symbol(text: Indexed) -> set[str]:
    """The names of a symbol: for ``Session.refresh`` in ``src/auth/session.py``, also ``session.Session.refresh`` and
    ``refresh``."""
    folder, _, qualified = place(text.uri).rpartition("/")
    qualified = qualified or text.name
    modules = _ENDING.sub("", folder).removesuffix("/__init__").split("/")
    found = {qualified, *(".".join([*modules[-n:], qualified]) for n in range(1, MODULES + 1))}
    last = qualified.rpartition(".")[2]
    if len(last) >= LEAST_LETTERS and not last.startswith("__"):
        found.add(last)
    return {name for name in found if len(name) >= LEAST_LETTERS}


def _written(text: str) -> Key:
    phrase = "" if is_file(text) else " ".join(re.findall(r"[^\W_]+", text))  # paths keep their case
    return Key(WRITTEN + text, "", 0, phrase)
