"""The kind Model: weights that deployments can serve, and their source."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from .base import REPOSITORY, TYPE, Manifest, Path, Strict, Variable


class TokenRef(Strict):
    """The place of a secret, such as the hub's token. Use either `env` or `file`."""

    env: Variable | None = None
    """Variable in the environment of `reconciler up` that holds the secret."""
    file: Path | None = None
    """File on the controller's machine that holds the secret and nothing else, best with mode 0600."""


Ref = TypeVar("Ref", bound=TokenRef | None)


def one_place(value: Ref) -> Ref:
    """Return a reference. Raises ``ValueError`` if it names no place, or two."""
    if value is not None and (value.env is None) == (value.file is None):
        raise ValueError("use either env or file")
    return value


def uncommitted(repo: str, revision: str) -> str:
    """Say why a revision is not the full id of a commit, and how to find the id; empty if it is one."""
    if len(revision) == 40 and not set(revision) - set("0123456789abcdef"):
        return ""
    shown = revision[:60]
    return (
        f"expected a commit of 40 hexadecimal digits, got {shown!r}; find the commit of a branch or tag with:"
        f" git ls-remote https://huggingface.co/{repo} {shown or 'main'}"
    )


class HuggingFace(Strict):
    """A repository on the Hugging Face hub, or on a compatible hub (`HF_ENDPOINT`)."""

    repo: Annotated[str, REPOSITORY.field()]
    """Owner and name of the repository."""
    revision: Annotated[str, Field(json_schema_extra={TYPE: "commit"})]
    """Commit as 40 hexadecimal digits. Branches and tags are not accepted, because they can move."""
    token_ref: Annotated[TokenRef | None, AfterValidator(one_place)] = None
    """Place of the access token, if the repository needs one. The token itself stays out of git."""

    @field_validator("revision")
    @classmethod
    def _commit(cls, value: str, info: Any) -> str:
        problem = uncommitted(info.data.get("repo", "OWNER/NAME"), value)
        if problem:
            raise ValueError(problem)
        return value


class ModelSource(Strict):
    """The source of the weights. Use either `path` or `huggingface`."""

    path: (
        Annotated[
            str, StringConstraints(min_length=1, max_length=1024), Field(json_schema_extra={TYPE: "path"})
        ]
        | None
    ) = None
    """Folder on the nodes: absolute, under `~`, or relative to the node's model directory."""
    huggingface: Annotated[HuggingFace | None, Field(validate_default=True)] = None
    """Repository from which the nodes fetch the weights. Every file is verified, and kept under `hub/` in the node's
    model directory."""

    @field_validator("huggingface")
    @classmethod
    def _one(cls, value: HuggingFace | None, info: Any) -> HuggingFace | None:
        if "path" in info.data and (value is None) == (info.data["path"] is None):
            raise ValueError("use either path or huggingface")
        return value

    @property
    def folder(self) -> str:
        """Return the path of the weights on every node, in the form that agents accept."""
        from reconciler.wire.weights import hub_path  # a command that only reads manifests has no use for it

        if self.huggingface is not None:
            return hub_path(self.huggingface.repo, self.huggingface.revision)
        assert self.path is not None
        return self.path


class ModelSpec(Strict):
    """Weights, and how long older revisions of them are kept."""

    source: ModelSource
    trust_remote_code: bool = False
    """Run the Python code that comes with the weights. Enable this only for sources that you trust."""
    keep: Annotated[int, Field(ge=0, le=16)] = 1
    """Number of older revisions that stay on the nodes in addition to those in use, for going back."""


class Model(Manifest):
    """Weights that deployments can serve."""

    kind: Literal["Model"]
    spec: ModelSpec
