"""What a Model says: where its weights come from."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from reconciler.wire.weights import hub_path

from .base import Strict


class TokenRef(Strict):
    """Where the hub's token is. One of them."""

    env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")] | None = None
    """Name of a variable in the environment of `reconciler up`."""
    file: Annotated[str, StringConstraints(pattern=r"^[/~]", max_length=1024)] | None = None
    """A file with nothing else in it, absolute or under `~`, where `reconciler up` runs. Mode 0600 is best."""


def _one_token(value: TokenRef | None) -> TokenRef | None:
    if value is not None and (value.env is None) == (value.file is None):
        raise ValueError("exactly one of env and file is to be given")
    return value


def uncommitted(repo: str, revision: str) -> str:
    """Why a revision is not the full id of a commit, and how to find that; empty where it is."""
    if len(revision) == 40 and not set(revision) - set("0123456789abcdef"):
        return ""
    shown = revision[:60]
    return (
        f"expected a commit of 40 hexadecimal digits, got {shown!r}; the commit of a branch or tag tells:"
        f" git ls-remote https://huggingface.co/{repo} {shown or 'main'}"
    )


class HuggingFace(Strict):
    """A repository on the Hugging Face hub, or on another that speaks as it does (`HF_ENDPOINT`)."""

    repo: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$", max_length=128)
    ]
    """`owner/name`."""
    revision: str
    """The commit, as 40 hexadecimal digits: what a branch or a tag names may change under a running deployment."""
    token_ref: Annotated[TokenRef | None, AfterValidator(_one_token)] = None
    """Where the token is that the repository needs, if any; it is kept out of git."""

    @field_validator("revision")
    @classmethod
    def _commit(cls, value: str, info: Any) -> str:
        problem = uncommitted(info.data.get("repo", "OWNER/NAME"), value)
        if problem:
            raise ValueError(problem)
        return value


class ModelSource(Strict):
    """Where the weights are. Either `path` or `huggingface`."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """Relative to the node's model directory, absolute, or under `~`."""
    huggingface: Annotated[HuggingFace | None, Field(validate_default=True)] = None
    """Fetched by the nodes that serve it, verified file by file, and kept under `hub/` in the node's model directory."""

    @field_validator("huggingface")
    @classmethod
    def _one(cls, value: HuggingFace | None, info: Any) -> HuggingFace | None:
        if "path" in info.data and (value is None) == (info.data["path"] is None):
            raise ValueError("exactly one of path and huggingface is to be given")
        return value

    @property
    def folder(self) -> str:
        """Where the weights are on every node: a path as agents take it."""
        if self.huggingface is not None:
            return hub_path(self.huggingface.repo, self.huggingface.revision)
        assert self.path is not None
        return self.path


class ModelSpec(Strict):
    """Weights."""

    source: ModelSource
    trust_remote_code: bool = False
    """Run Python code that comes with the weights. Only for sources that you trust fully."""
    keep: Annotated[int, Field(ge=0, le=16)] = 1
    """Older revisions of its repository that stay on the nodes, beside those in use: what it could go back to."""
