"""Takes what may be a secret out of a text. Pure.

It goes by what secrets look like, because logs and annotations may hold anything. What only looks like one goes too: the
hash of an API key is no secret, but nobody who helps needs it.
"""

from __future__ import annotations

import re

REMOVED = "(removed)"

_NAMES = r"[\w.-]*(?:token|secret|password|passwd|passphrase|api[-_]?key|apikey|credentials?)"
_PATTERNS = (
    # PEM and OpenSSH private keys, whole or cut
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), REMOVED),
    # a header, and whatever scheme it has
    (re.compile(r"(?i)\b((?:proxy-)?authorization|x-api-key|cookie|set-cookie)(\"?\s*[:=]\s*)[^\n\"]+"), rf"\1\2{REMOVED}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {REMOVED}"),
    # a value of a name that says what it is; numbers are counts
    (re.compile(rf"(?i)\b({_NAMES})(\"?\s*[:=]\s*\"?)(?!\d+\b|null\b|true\b|false\b|\{{)[^\s\",}}]{{4,}}"), rf"\1\2{REMOVED}"),
    # user and password, and the parameters, of a URL
    (re.compile(r"(?<=://)[^\s/@\"']+:[^\s/@\"']+(?=@)"), REMOVED),
    (re.compile(r"(?<=hooks\.slack\.com/services/)[^\s\"']+|(?<=/api/webhooks/)[^\s\"']+"), REMOVED),
    (re.compile(r"(?<=[?&])([\w-]+)=[^\s&\"'#]{8,}"), rf"\1={REMOVED}"),
    # what services call their keys
    (re.compile(r"\b(?:sk|pk|rk|hf|ghp|gho|ghs|ghu|glpat|npm|pypi|github_pat|xox[abprs]|reconciler)[-_][A-Za-z0-9_-]{16,}"),
     REMOVED),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b"), REMOVED),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"), REMOVED),
    # long random texts: 64 digits and more are a secret of a group or a hash; a commit has 40
    (re.compile(r"\b[0-9a-fA-F]{64,}\b"), REMOVED),
    (re.compile(r"(?<![\w/+.-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[A-Za-z0-9+_-]{40,}={0,2}(?![\w/+.-])"), REMOVED),
)  # fmt: skip


def redacted(text: str) -> str:
    """Return a text without what may be a secret."""
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text
