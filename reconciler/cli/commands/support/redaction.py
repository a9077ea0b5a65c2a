"""Removes everything that may be a secret from a text. Pure.

It looks for known secrets, for names that mean a secret, with any separator and any form of value, and for the usual forms
of secrets, because logs and annotations may hold anything. It also removes texts that only look like secrets.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

REMOVED = "(removed)"
KNOWN_CHARACTERS_MIN = 6
"""A shorter text may be anything, even if it equals a secret."""
NESTED_CHARACTERS_MAX = 4000
"""Most characters to examine of a block, or of a value in brackets."""

_SHORT = r"pass|pw|psw|pswd|psk|otp|jwt"
"""Names that count only as whole words, because other words contain them."""
_PHRASES = r"(?<!no)passw(?:or)?d|passwort|passphrase|passcode|kennwort|pwd|secret|contrase[nñ]a|senha|mot[ ]de[ ]passe|wachtwoord|пароль|密[码碼]|パスワード|(?:ssh|store|key|user|root|admin|db)pass"
"""Names of secrets that people choose, which may have blanks."""
_KEYS = (
    r"(?:api|access|account|client|private|secret|signing|encryption|master|subscription|license|auth|ssh|deploy|"
    r"preshared|shared|storage|service|tls|ssl)[-_ ]?key"
)
_HEADERS = r"(?:proxy-)?authorization|x-[a-z-]{0,40}(?:key|token|secret)|(?:set-)?cookie"
_PLURALS = r"passwords|passphrases|secrets|api[-_]?keys|access[-_]?tokens"
_BEGIN = r"(?:(?<![a-z])|(?<=\\[nrt])|(?<=-D)|(?-i:(?<=[a-z])(?=[A-Z][a-z])))"
_NAMES = (
    rf"{_PLURALS}|{_PHRASES}|{_KEYS}|token|credentials?|session[-_]?(?:id|key)|_auth|{_BEGIN}(?:{_SHORT})"
)
_OF = r"(?:[-_]?(?:data|value|text|string|raw|plain|hash|base64|b64|old|new|prod|production|dev|test|staging|\d{1,3}))?"
"""Endings after which a name still means the secret itself."""
_QUOTE = r"\\*(?:\"\"\"|'''|[\"'`])"
"""A quote, also one in JSON within JSON."""
_LINE_END = r"(?:\r?\n|(?:\\+r)?\\+n)"
_EQUALS = r"(?::=|：|[=-]+>|[?+~]?={1,3}|::?|→|%(?:25)?3[ad]|\\+u003d|&\#0?61;)"

_FIELDS = rf"(?:(?:{_QUOTE})?[a-z_]{{1,30}}(?:{_QUOTE})?[ \t]*:[ \t]*[^\s,{{}}\[\]]{{1,80}}[ \t]*,?(?:\s|{_LINE_END}){{1,40}}){{0,2}}"
"""Other fields of the same object."""
_ANY_NAME = rf"[\w.-]{{0,60}}?(?:{_HEADERS}|{_NAMES}){_OF}"

_NAMED = re.compile(
    rf"""(?ix)
    (?P<option>(?<![\w-])--?[\w.-]{{0,40}}|\b(?:setenv|set[ ]-\w+|config(?:[ ]--\w+|[ ]set)*)[ ][\w.-]{{0,40}})?
    (?:
        (?P<header>{_BEGIN}(?:{_HEADERS}))
      | (?P<phrase>(?:{_PLURALS}|{_PHRASES}|{_BEGIN}(?:{_SHORT})){_OF})
      | (?P<key>(?:{_NAMES}){_OF})
      | (?(option)(?:auth|bearer|key-?pass)|(?!))
    )
    (?P<is>
        (?(option)(?:-stdin)?(?:{_QUOTE}[ \t]*,[ \t]*(?={_QUOTE}(?!(?-i:--?[a-z][a-z-]{{0,30}}){_QUOTE}[ \t]*,))|[ \t]+(?!-)|=)|(?!))
        # the value of another field, element or part beside it
      | (?:{_QUOTE})?[ \t]*,?(?:\s|{_LINE_END}){{0,40}}{_FIELDS}(?:-[ ]+)?(?:{_QUOTE})?(?<![a-z])(?:default)?value(?:{_QUOTE})?[ \t]*[:=][ \t]*
      | {_QUOTE}[^<>\n]{{0,200}}\svalue[ \t]*=[ \t]*
      | {_QUOTE}{_LINE_END}{{2}}(?=[^\s"'{{}}\[\]])
        # a pair, as of headers
      | (?(header)(?:{_QUOTE}[ \t]*,[ \t]*b?(?={_QUOTE}))|(?!))
        # within a tag
      | (?:{_QUOTE})?(?:\s[^<>\n]{{0,200}})?>(?=[^<>]+</|<!\[CDATA\[)
      | </\w+>\s{{0,40}}<\w+>
        # a sign, behind whatever closes the name
      | (?:[ ](?:for|of|to)[ ][^\n]{{1,80}}?(?=:[ \t]))?(?:{_QUOTE}|[\]) \t\u00a0])*{_EQUALS}[ \t\u00a0]*(?:\\\r?\n[ \t]*)?
      | \([ \t]*(?={_QUOTE})
        # a column
      | (?:\t[ \t]*|[ ]{{2,}})(?=\S)(?!(?-i:[A-Z]+\b)|\#|[|-]{{2}})
        # a blank, where what follows is no word of a sentence
      | (?(phrase)[ ](?={_QUOTE}[^\s"']{{3}}|(?=[^\s:]*\d)(?=[^\s:]*[a-z])[^\s:]{{8,}}(?:\s|\Z))|(?!))
    )
    """
)  # fmt: skip
"""A name that means a secret, and everything between it and the value."""

_NOTHING = re.compile(
    rf"(?i)(?:{_QUOTE})?(?:\(removed\)|(?:null|none|nil|true|false|yes|no|unset|~|<[a-z_ -]+>|\*+|\$\{{[^}}\n]*\}}+|\$\([^)\n]*\)"
    rf"|(?-i:\$[A-Z_][A-Z0-9_]*))(?=[\s,;}}\])\\]|{_QUOTE}|\Z))|[,;}}\])](?!\w)|\Z"
)
"""A value that is no secret, or that names the place of one."""
_QUOTED = re.compile(rf"(?:!+\w+[ \t]+)?[bur]?(?P<quote>{_QUOTE})(?P<in>(?:(?!(?P=quote))[^\n]|(?<=\\)(?P=quote)|(?P=quote)(?P=quote))*)(?<!\\)(?P=quote)")  # fmt: skip
_TRIPLE = re.compile(r"(?P<quote>\"\"\"|''')(?P<in>[\s\S]*?)(?P=quote)")
_CDATA = re.compile(r"<!\[CDATA\[(?P<in>[\s\S]*?)\]\]>|(?P<inner>[^<>]+)(?=</)")
_LINES = re.compile(r"(?P<quote>[\"'])[^\"'\n]*(?:\n[^\"'\n]*){1,20}(?P=quote)(?=[ \t]*(?:[;,)}\]\r\n]|\Z))")
"""A text in quotes over several lines."""
_BLOCK = re.compile(r"(?:!+\w+[ \t]+)?[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?(?=\r?\n)")
_ONE_WORD = r"(?:[^\s\"'`&}\])\\]|&(?![\w.-]+=)|[\"'`](?=\w)|[}\])](?=\w)|\\(?!\\{0,12}[nrt\"'`])|%(?!26))"
_WORD = re.compile(rf"(?:!+\w+[ \t]+)?(?:{_QUOTE})?{_ONE_WORD}{{4,}}(?:{_QUOTE})?")
_PHRASE = re.compile(rf"(?:!+\w+[ \t]+)?(?:{_QUOTE})?{_ONE_WORD}{{3,}}(?:[ \t]+[^\n\"'{{}}\[\]&,;=<]*)?")
_HEADER = re.compile(rf"(?:{_QUOTE})?[^\n\"'\\]+")
_LEAF = re.compile(
    rf"(?P<name>(?:{_QUOTE})?[\w.-]+(?:{_QUOTE})?[ \t]*[:=](?=[\s\"'\\{{\[])[ \t]*|-[ \t]+)?"
    rf"(?P<leaf>(?P<quote>{_QUOTE})[^\n]*?(?<!\\)(?P=quote)|[^\s,\[\]{{}}\"'\\:][^\s,\[\]{{}}\"'\\]*)?"
)
_PLACES = re.compile(
    r"(?i)\W*(?:\w*(?:file|path|env|from|ref)|name|namespace|key|kind|type|id|user|username|login|optional)\W*\Z"
)
"""Names of values that give the place or the owner of a secret."""

_PREFIXES = (
    "sk|pk|rk|hf|api_org|dckr_pat|dckr_oat|ghp|gho|ghs|ghu|ghr|gl[a-z]{2,6}|npm|pypi|github_pat|xox[abeoprs]|xapp|reconciler|gsk|nvapi|"
    "tskey|do[opr]_v1|hv[brs]|r8|shp(?:at|ca|pa|ss)|SG|ya29|lin_api|key|tfp|figd|sbp|ATATT3x|dapi|pat|whsec|ops|secret|ntn|PMAK|CFPAT|"
    "NRAK|sntrys|sntryu|dp\\.[a-z]{2}|pscale_(?:tkn|pw|oauth)|rubygems|xai|pplx|tvly|fw|sq0[a-z]{3}|phc|phx|op|eyJ[\\w-]*"
)
_READERS = r"(?:\bsudo\b[^\n|]{0,100}?\s-\w*S\b|\bchpasswd\b|\bpasswd\s+--stdin|--(?:\w+-)?(?:with-token|stdin|passphrase-fd)|\bcryptsetup\b)"
"""Programs that read a secret from their input."""


def _compiled(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(pattern, re.IGNORECASE if pattern.startswith("(?#i)") else 0), instead)
        for pattern, instead in rules
    )


_WHOLE = _compiled(
    # private keys of PEM, OpenSSH, PGP, PuTTY and age, whole or cut, also in one line
    (r"-----BEGIN(?: |%20|\+)[A-Z 02%+]*PRIVATE(?: |%20|\+)KEY[\s\S]*?(?:-----END[A-Z 02%+]*KEY(?:(?: |%20|\+)BLOCK)?-----|\Z)", REMOVED),
    (rf"Private-Lines(?::|%3A)[\s\S]*?(?:Private-(?:MAC|Hash)(?::|%3A)(?: |%20)*[0-9a-fA-F]+|{_LINE_END}(?![ \t]*[\w+/=]{{16,}}(?:\s|\\|\Z|[\"']))|\Z)", REMOVED),
    (r"(?m)(?:^[ \t+]*[\w+/=]{1,76}[ \t]*\r?\n|^[ \t]*\r?\n){1,80}[ \t+]*(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|Private-(?:MAC|Hash): *[0-9a-fA-F]+)", REMOVED),
    (r"(?#i)AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{16,}", REMOVED),
    (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", REMOVED),
)  # fmt: skip
"""These are removed before names are searched for, because they span lines, or are base64 themselves."""
_VALUE_FIRST = _compiled(
    (rf"(?#i)([\"']value[\"'][ \t]*:[ \t]*)(?P<q>[\"'])(?:\\.|(?!(?P=q))[^\n\\]){{1,2000}}(?P=q)(?=\s*,\s*[\"'](?:name|key)[\"']\s*:\s*[\"']{_ANY_NAME}[\"'])", rf"\1\g<q>{REMOVED}\g<q>"),
    (rf"(?#i)((?:^|\n)[ \t-]*value:[ \t]*)(?!\(removed\))\S[^\n]*(?=\n[ \t]+(?:name|key):[ \t]*[\"']?{_ANY_NAME}[\"']?[ \t]*(?:\r?\n|\Z))", rf"\1{REMOVED}"),
    (rf"(?#i)(\bvalue=(?P<q>[\"']))[^\n<>]{{1,2000}}?(?=(?P=q)[^<>\n]{{0,100}}\b(?:name|key|id)=[\"']?{_ANY_NAME}[\"'])", rf"\1{REMOVED}"),
)  # fmt: skip
"""A value that comes before its name."""
_PATTERNS = _compiled(
    # values that a program gets on its command line and at its input
    (r"((?:^|\s|[\"'])(?:-u|--user|--proxy-user)(?:[ =]|[\"'],\s*[\"'])[\"']?)[^\s:\"']+:[^\s\"']+", rf"\1{REMOVED}"),
    (r"(\b(?:sshpass|docker|podman|buildah|skopeo|helm|oras|mysql\w*|mariadb\w*|mongo\w*|az|security|7z|op|expect|nmcli)\b[^\n|;&]{0,200}?\s-p[ =]?[\"']?)(?!-)(?!\d+(?::\d+)+\b)(?![\w./]+ ?/)[^\s\"'|;&]{3,}", rf"\1{REMOVED}"),
    (r"(\b(?:redis-cli\b[^\n|;&]{0,200}?\s-a|ldap\w+\b[^\n|;&]{0,200}?\s-w|(?:un)?zip\b[^\n|;&]{0,200}?\s-P|(?:plink|pscp|psftp)\b[^\n|;&]{0,200}?\s-pw|xfreerdp\b[^\n|;&]{0,200}?/p:|openssl\b[^\n|;&]{0,200}?\s-pass(?:in|out)? (?:pass:)?|smbclient\b[^\n|;&]{0,200}?-U ?[^\s%]{1,80}%|htpasswd\b[^\n|;&]{0,200}?\s-\w*b\w* \S+ \S+) ?)[^\s\"'|;&]+", rf"\1{REMOVED}"),
    (rf"(\b(?:echo|printf)(?: +-\w+)* +)[^\n|]{{1,200}}?(?=\s?\|[^\n|]{{0,100}}?{_READERS})", rf"\1{REMOVED}"),
    (rf"({_READERS}[^\n|<]{{0,100}}<<< *)(?:\"[^\"\n]*\"|'[^'\n]*'|\S+)", rf"\1{REMOVED}"),
    (rf"({_READERS}[^\n|<]{{0,100}}<<-? *[\"']?(?P<end>\w+)[\"']?[^\n]*\n)[\s\S]*?(?=\n[ \t]*(?P=end)\b|\Z)", rf"\1{REMOVED}"),
    # a scheme of a header, a sentence, and the files .netrc, .pgpass and of cookies
    (r"(?#i)\b(bearer|basic|token|apikey) (?=\S*[\d=_])[\w.~+/=-]{8,}", rf"\1 {REMOVED}"),
    (rf"(?#i)\b({_NAMES}) (is:?|was|to|lautet|ist) (?=\S*\d)[^\s,;]{{4,}}", rf"\1 \2 {REMOVED}"),
    (r"(?#i)(\bidentified by )(?:'[^'\n]+'|\"[^\"\n]+\")", rf"\1{REMOVED}"),
    (rf"(?#i)\b((?:{_PHRASES}) (?:is|lautet|ist) )(?!nicht|kein|falsch|leer|not|no|too|empty|missing|wrong|required|set|a |an |the )[^\n,;]{{4,}}", rf"\1{REMOVED}"),
    (r"(?#i)(\b(?:(?:machine|login|account)\s+\S+|default)\s+password\s+)\S+", rf"\1{REMOVED}"),
    (r"(?m)^(?!(?:MD5|[0-9a-fA-F]{2}):[0-9a-fA-F]{2}:)([\w.*-]{1,253}:(?:\d+|\*):[^:\s]+:[^:\s]+:)\S+$", rf"\1{REMOVED}"),
    (r"(\t(?:TRUE|FALSE)\t\d+\t[^\t\n]+\t)\S+", rf"\1{REMOVED}"),
    # user and password, and the parameters, of a URL
    (r"(?#i)(?<=https://)[^\s/@\"'\\]+(?=@)|(?<=http://)[^\s/@\"'\\]+(?=@)", REMOVED),
    (r"(?<=://)[^\s/@\"'\\]{0,200}:[^\s\"'\\]{1,400}(?=@)", REMOVED),
    (r"(?<=hooks\.slack\.com/services/)[^\s\"'\\]+|(?<=/api/webhooks/)[^\s\"'\\]+|(?<=webhook\.office\.com/)[^\s\"'\\]+|(?<=ntfy\.sh/)[^\s\"'\\]+", REMOVED),
    (r"(?<=api\.telegram\.org/bot)[^\s/\"'\\]+|\b\d{8,10}:[A-Za-z0-9_-]{35}\b", REMOVED),
    (r"(?<=[?&])([\w-]+)=[^\s&\"'\\#]{8,}", rf"\1={REMOVED}"),
    (rf"(?#i)(?<=[?&#])([\w-]{{0,40}}(?:{_NAMES})|sig|signature|code|key)=[^\s&\"'\\#]+", rf"\1={REMOVED}"),
    # the keys of services by their prefixes, and hashes of passwords and of keys
    (rf"\b(?:{_PREFIXES})[-_.](?!ssh-|ecdsa-)(?=[\w.-]*(?:\d|[a-z][A-Z]))[A-Za-z0-9_.-]{{16,}}", REMOVED),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bSK[0-9a-f]{32}\b", REMOVED),
    (r"\$(?:2[aby]|1|5|6|7|y|argon2[id]{1,2}|pbkdf2[\w-]*|apr1)\$[\w./$=,+-]{8,}|\{S?SHA\d*\}[\w+/=]{16,}", REMOVED),
    (rf"(?#i)(\bhash(?:es)?(?:{_QUOTE})?{_EQUALS}[ \t]*(?:{_QUOTE})?)sha256:[0-9a-f]{{64}}", rf"\1{REMOVED}"),
    # long random texts: 64 digits and more are a secret of a group; a commit has 40, and a digest names its algorithm
    (r"(?<!sha256:)(?<!sha512:)\b[0-9a-fA-F]{64,}\b", REMOVED),
    (r"(?<![\w/+.-])(?<!SHA256:)(?<!SHA512:)(?<!sha256-)(?<!sha512-)(?!AAAA[A-Z])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[A-Za-z0-9+_-]{40,}={0,2}(?![\w/+.-])", REMOVED),
)  # fmt: skip
_CODED = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{12,}(?:\r?\n[ \t]*[A-Za-z0-9+/_-]{12,})*(?:\r?\n[ \t]*(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{4}|[A-Za-z0-9+/_-]{3}=|[A-Za-z0-9+/_-]{2}==)(?=\s*(?:\n|\Z)))?={0,2}(?![\w+/=-])")  # fmt: skip
_COLOUR = re.compile(r"(?:\x1b|\\{1,8}(?:u001b|x1b|033|e))\[[0-9;]*[mK]")
_NAME = re.compile(rf"(?i){_ANY_NAME}")
_PLAIN = re.compile(rb"[\t\n\r -~]*")
_PAIR = re.compile(r"[\w.@+-]+:[^\s:]+")

_TITLE = re.compile(r"[\w .()/-]{1,40}")
_FRAME = re.compile(r"[\s|+:=-]+")
_QUOTED_CELL = r"\"(?:[^\"\n]|\"\")*\"|'[^'\n]*'"
_CELLS = tuple(
    re.compile(rf"(?:(?<=\A)|(?<={mark}))[ ]*({_QUOTED_CELL}|[^{mark}\n]*)(?={mark}|\Z)")
    for mark in (",", ";", "\t", r"\|")
)
"""A cell of a line, for each separator of cells. Without one, two blanks separate them."""
_ALIGNED = re.compile(r"(\S+(?: \S+)*)")


def redacted(text: str, known: Iterable[str] = ()) -> str:
    """Return a text without possible secrets, and without the ``known`` ones in any of their forms."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= KNOWN_CHARACTERS_MIN:
            for form in _forms(secret):
                text = text.replace(form, REMOVED)
    text = _COLOUR.sub("", text)
    for pattern, instead in (*_WHOLE, *_VALUE_FIRST):
        text = pattern.sub(instead, text)
    text = _without_cells(text)
    text = _without_named(_CODED.sub(_decoded, text))
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _without_named(text: str) -> str:
    """Return a text without the values of names that mean a secret."""
    kept: list[str] = []
    at = 0
    while found := _NAMED.search(text, at):
        end, shown = _value(text, found)
        kept += (text[at : found.end()], shown)
        at = end
    return "".join((*kept, text[at:]))


def _value(text: str, name: re.Match[str]) -> tuple[int, str]:
    """Return the end of the value after a name, and the text to show instead of it."""
    start = name.end()
    line = text.rfind("\n", 0, name.start()) + 1
    indent = len(text[line : name.start()]) - len(text[line : name.start()].lstrip(" \t-\"'"))
    if (block := _BLOCK.match(text, start)) or text[start : start + 2].strip(" \t\r")[:1] == "\n":
        end = _end_of_block(text, block.end() if block else start, indent)
        return end, f"{REMOVED}\n" if block and end > block.end() + 2 else _leaves(text[start:end])
    if _NOTHING.match(text, start):
        return start, ""
    if text[start : start + 1] in ("{", "["):
        end = _end_of_brackets(text, start)
        return end, _leaves(text[start:end])
    for form in (_TRIPLE, _QUOTED, _CDATA if ">" in name["is"] else _TRIPLE):
        if found := form.match(text, start):
            if not (found["in"] or "").strip() and form is not _CDATA:
                return start, ""
            mark = found["quote"] if form is not _CDATA else ""
            return found.end(), f"{mark}{REMOVED}{mark}"
    if found := _LINES.match(text, start):
        return found.end(), f"{found['quote']}{REMOVED}{found['quote']}"
    form = _HEADER if name["header"] else _PHRASE if name["phrase"] and not name["option"] else _WORD
    found = form.match(text, start)
    return (found.end(), REMOVED) if found else (start, "")


def _end_of_block(text: str, start: int, indent: int) -> int:
    """Return the end of the lines after a place that are indented more than a name, or are items of a list there."""
    end = text.find("\n", start) + 1
    if not end:
        return start
    while end < min(len(text), start + NESTED_CHARACTERS_MAX):
        stop = text.find("\n", end) + 1 or len(text)
        line = text[end:stop]
        depth = len(line) - len(line.lstrip(" \t"))
        if line.strip() and (depth < indent or (depth == indent and not line.lstrip().startswith("- "))):
            break
        end = stop
    return end


def _end_of_brackets(text: str, start: int) -> int:
    """Return the end of a value in brackets, or of the part of it that is examined."""
    depth = 0
    for at in range(start, min(len(text), start + NESTED_CHARACTERS_MAX)):
        depth += (text[at] in "{[") - (text[at] in "}]")
        if not depth:
            return at + 1
    return min(len(text), start + NESTED_CHARACTERS_MAX)


def _cell(text: str) -> str:
    bare = text.strip()
    return text if not bare.strip("\"'") or _NOTHING.fullmatch(bare) else text.replace(bare, REMOVED)


def _leaves(text: str) -> str:
    """Return the text of a block or of a value in brackets, without its values; values that name a secret's place stay."""
    return _LEAF.sub(_leaf, text)


def _leaf(found: re.Match[str]) -> str:
    name, leaf = found["name"] or "", found["leaf"]
    if not leaf or _PLACES.match(name) or _NOTHING.fullmatch(leaf) or leaf.strip("\\\"'") in ("", REMOVED):
        return found[0]
    return f"{name}{found['quote'] or ''}{REMOVED}{found['quote'] or ''}"


def _decoded(found: re.Match[str]) -> str:
    """Return the text to show for one that may be base64 of a text with a secret."""
    coded = re.sub(r"\s", "", found[0]).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        whole = base64.b64decode(
            coded[: len(coded) // 4 * 4] if len(coded) % 4 == 1 else coded + "=" * (-len(coded) % 4)
        )
    except binascii.Error:
        return found[0]
    plain = _PLAIN.match(whole)[0].decode()  # type: ignore[index]
    if len(plain) < min(len(whole), 24):
        return found[0]
    return REMOVED if _PAIR.fullmatch(plain) or redacted(plain) != plain else found[0]


def _forms(secret: str) -> Iterable[str]:
    """Return the forms of a secret: itself, quoted for a URL, quoted for JSON once and twice, and in base64."""
    once = json.dumps(secret)[1:-1]
    coded = base64.b64encode(secret.encode()).decode()
    return dict.fromkeys(
        (json.dumps(once)[1:-1], once, quote(secret, safe=""), coded, coded.rstrip("="), secret)
    )


# --- tables ------------------------------------------------------------------------------------------


def _without_cells(text: str) -> str:
    """Return a text without the cells of tables whose column title means a secret: the title is on another line."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _columns(lines[at])
        at += 1
        if found is None:
            continue
        form, count, secret = found
        while at < len(lines):
            line = lines[at]
            spans = [match.span(1) for match in form.finditer(line.rstrip("\r"))]
            if not (line.strip() and _FRAME.fullmatch(line)):
                if len(spans) != count or not line.strip():
                    break
                for index in reversed(secret):
                    start, end = spans[index]
                    line = line[:start] + _cell(line[start:end]) + line[end:]
                lines[at] = line
            at += 1
    return "\n".join(lines)


def _columns(line: str) -> tuple[re.Pattern[str], int, list[int]] | None:
    """Return the cell pattern of a line of titles, their number, and the indexes of those that mean a secret; None for any
    other line."""
    line = line.rstrip("\r")
    if len(line) > 1000 or not _NAME.search(line):
        return None
    for form in (*_CELLS, _ALIGNED):
        titles = [match[1].strip(" \t\"'") for match in form.finditer(line)]
        secret = [at for at, title in enumerate(titles) if _NAME.fullmatch(title)]
        if len(titles) > 1 and secret and all(not title or _TITLE.fullmatch(title) for title in titles):
            return form, len(titles), secret
    return None
