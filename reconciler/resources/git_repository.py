"""The settings of a remote repository: the kind GitRepository of ``source.yaml`` in the home, with the fields of Flux's.

It is not a kind of manifest: the source of the manifests cannot be one of them.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from .base import TYPE, USER, ApiVersion, Path, Seconds, Strict, Variable
from .notifier import is_loopback

URL_CHARACTERS_MAX = 1024
INTERVAL_SECONDS_MIN, INTERVAL_SECONDS_MAX = 5.0, 24 * 3600.0
_SCP = re.compile(r"(?:([A-Za-z0-9_][\w.-]{0,63})@)([A-Za-z0-9][\w.-]{0,252}):(?!/?/)([^\s]+)")
_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/-]{0,249}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_PRINTABLE = re.compile(r"[!-~]+")
Forge = Literal["github", "gitlab", "forgejo", "gitea"]


class SecretFrom(Strict):
    """The place of a secret. Use either `env` or `file`."""

    env: Variable | None = None
    """Variable in the environment of `reconciler up` that holds the secret."""
    file: Path | None = None
    """File that holds the secret and nothing else, best with mode 0600. It is read whenever it is needed."""

    @model_validator(mode="after")
    def _one(self) -> SecretFrom:
        if (self.env is None) == (self.file is None):
            raise ValueError("use exactly one of env and file")
        return self


class Ref(Strict):
    """The part of the repository that is followed."""

    branch: Annotated[str, Field(max_length=250)] = "main"
    """The branch."""

    @field_validator("branch")
    @classmethod
    def _plain(cls, value: str) -> str:
        parts = value.split("/")
        if not _BRANCH.fullmatch(value) or ".." in value or not all(parts) or value.endswith((".", ".lock")):
            raise ValueError('expected the name of a branch such as "main" or "release/2"')
        return value


class SshSecret(Strict):
    """The key to log in with over SSH, and the server's host keys."""

    key_file: Path
    """Private key that may read the repository, without a passphrase. Its mode is 0600."""
    known_hosts_file: Path
    """File with the host keys of the server, as `ssh-keyscan` writes it. Others are refused."""


class TokenSecret(SecretFrom):
    """A token that may read the repository over HTTPS."""

    username: Annotated[str, USER.field()] = "git"
    """User name that is sent with the token. Most forges take any."""


class SecretRef(Strict):
    """The places of the secrets. They are only named here, and read when they are needed."""

    ssh: SshSecret | None = None
    """For URLs of SSH."""
    token: TokenSecret | None = None
    """For URLs of HTTPS."""


class Verify(Strict):
    """The signatures of commits: every commit since the last accepted one must be signed."""

    allowed_signers: Path
    """File of the signers with their SSH keys, in the format of ssh-keygen(1), ALLOWED SIGNERS."""
    since: str | None = None
    """Last commit that needs no signature, for a branch with earlier history. By default there is none."""

    @field_validator("since")
    @classmethod
    def _commit(cls, value: str | None) -> str | None:
        if value is not None and not _COMMIT.fullmatch(value):
            raise ValueError("expected a full commit id of 40 hexadecimal digits")
        return value


class Receiver(Strict):
    """The gateway's path `/hooks/git`, which only reports that there is something to fetch."""

    secret: SecretFrom
    """Secret with which the forge signs its messages."""


class ForgeReport(Strict):
    """The forge that shows commits as pending, successful or failed, and the plan as a comment on pull requests."""

    type: Forge
    """Product whose interface it has."""
    token: SecretFrom
    """Token that may write statuses of commits, and comments."""
    url: Annotated[str, Field(max_length=URL_CHARACTERS_MAX)] | None = None
    """Base URL of the interface, such as `https://git.example.com/api/v1`. By default it follows from the remote."""
    project: Annotated[str, Field(max_length=255)] | None = None
    """The repository there, such as `team/cluster`. By default it follows from the remote."""
    comment: bool = True
    """Write the plan as a comment on open pull requests against the branch. Those from forks get none: the plan
    describes this cluster, and anybody may open them."""

    @field_validator("url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None:
            _checked_web(value)
        return value


def _checked_web(value: str) -> None:
    parts = urlsplit(value)
    plain = _PRINTABLE.fullmatch(value) and parts.hostname and parts.username is None and not parts.query
    if parts.scheme not in ("https", "http") or not plain:
        raise ValueError('not a URL such as "https://git.example.com/team/cluster.git", without a user')
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError("http to another machine can be read and changed on the way; use https or ssh")


class GitRepositorySpec(Strict):
    """The remote repository that the branch `main` of the home's repository follows."""

    url: Annotated[str, Field(max_length=URL_CHARACTERS_MAX, json_schema_extra={TYPE: "url"})]
    """`https://…`, `ssh://…`, `user@host:path`, `file:///…` or the path of a folder. It contains no secret."""
    ref: Ref = Ref.by_default()
    """Part of the repository to follow. By default its branch `main`."""
    path: Annotated[str, Field(max_length=255)] = ""
    """Folder with the manifests; everything outside it is ignored. By default the whole repository."""
    interval: Seconds = 60.0
    """Time between two looks at the repository. A webhook causes a look at once."""
    secret_ref: SecretRef = SecretRef.by_default()
    """Places of the secrets."""
    ca_file: Path | None = None
    """Certificates of the authorities that are trusted for HTTPS, instead of the system's."""
    verify: Verify | None = None
    """Signatures that commits need. By default the commits of everybody who may push are accepted."""
    allow_rewind: bool = False
    """Let the branch lose commits. By default a rewound branch is refused."""
    receiver: Receiver | None = None
    """The webhook of this cluster. By default there is none, and the path does not exist."""
    forge: ForgeReport | None = None
    """Forge that shows the outcome of each commit. By default none does."""

    @field_validator("url")
    @classmethod
    def _known(cls, value: str) -> str:
        return checked_url(value)

    @field_validator("path")
    @classmethod
    def _inside(cls, value: str) -> str:
        parts = value.split("/")
        if value and (
            not value.isprintable() or any(part in ("", ".", "..") or part.startswith(".") for part in parts)
        ):
            raise ValueError('expected a folder of the repository such as "clusters/studio"')
        return value

    @field_validator("interval")
    @classmethod
    def _often(cls, value: float) -> float:
        if not INTERVAL_SECONDS_MIN <= value <= INTERVAL_SECONDS_MAX:
            raise ValueError("expected a duration from 5s to 24h")
        return value

    @model_validator(mode="after")
    def _fitting(self) -> GitRepositorySpec:
        scheme = scheme_of(self.url)
        if scheme == "ssh" and self.secret_ref.ssh is None:
            raise ValueError("a URL of SSH needs secretRef.ssh: {keyFile: PATH, knownHostsFile: PATH}")
        if scheme != "ssh" and self.secret_ref.ssh is not None:
            raise ValueError("secretRef.ssh is for URLs of SSH")
        if scheme not in ("https", "http") and self.secret_ref.token is not None:
            raise ValueError("secretRef.token is for URLs of HTTPS")
        return self


class GitRepository(Strict):
    """The remote repository that holds the truth."""

    api_version: ApiVersion
    kind: Literal["GitRepository"]
    """The kind of the file."""
    spec: GitRepositorySpec


def scheme_of(url: str) -> str:
    """Return how a URL is reached: ``https``, ``http``, ``ssh`` or ``file``."""
    if url.startswith("/"):
        return "file"
    return "ssh" if _SCP.fullmatch(url) else urlsplit(url).scheme


def host_and_project(url: str) -> tuple[str, str]:
    """Return host and path of a remote, without ``.git``; empty where it is a folder of this machine."""
    match = _SCP.fullmatch(url)
    host, path = (match[2], match[3]) if match else (urlsplit(url).hostname or "", urlsplit(url).path)
    return host, path.strip("/").removesuffix(".git")


def checked_url(value: str) -> str:
    """Return a URL of a git repository. Raises ``ValueError``, with a text that does not repeat it: it may hold a
    secret."""
    scheme = scheme_of(value) if not value.startswith("-") else ""
    parts = urlsplit(value)
    if scheme in ("https", "http"):
        _checked_web(value)
    elif scheme == "ssh":
        clear = _SCP.fullmatch(value) or (parts.hostname and parts.password is None and len(parts.path) > 1)
        hidden = (parts.hostname or "").startswith("-") or (parts.username or "").startswith("-")
        if not clear or hidden or not _PRINTABLE.fullmatch(value):
            raise ValueError(
                'not a URL such as "ssh://git@host/team/cluster.git" or "git@host:team/cluster.git"'
            )
    elif scheme != "file" or not value.isprintable():
        raise ValueError("not https://…, ssh://…, user@host:path, file:///… or an absolute path")
    return value
