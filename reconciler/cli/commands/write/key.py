"""`key`: make, rotate and revoke keys of clients. The secret goes to standard output, once, and nowhere else."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.core import complete
from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.commits import (
    Files,
    How,
    Landed,
    WritingCommand,
    carry_out,
    prepare,
    report,
    write_options,
)
from reconciler.cli.core.durations import DURATION, parse_moment, parse_seconds
from reconciler.cli.core.kinds import full_name
from reconciler.cli.core.targets import document_of, labels_of
from reconciler.cli.core.waiting import finish, until_read
from reconciler.cli.output.form import print_body
from reconciler.cli.output.parsed import Parsed, number_option
from reconciler.errors import Refused
from reconciler.wire.keys import RANDOM_BYTES, hash_of, secret_of

if TYPE_CHECKING:
    from reconciler.resources.api_key import ApiKeySpec

KIND = "ApiKey"
LIMITS = ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "parallel_requests")


def _parse_end(text: str) -> datetime:
    """Return a time, given as such or as the duration until then."""
    try:
        return datetime.now(UTC) + timedelta(seconds=parse_seconds(text))
    except ValueError:
        return parse_moment(text)


END = Parsed("time", _parse_end)


@click.group(cls=SuggestingGroup)
def key() -> None:
    """Make, rotate and revoke keys of clients.

    \b
    Examples:
      reconciler key create open-webui --models large --requests-per-minute 60 --expires 90d
      reconciler key rotate open-webui --overlap 24h
      reconciler key revoke open-webui
      reconciler get apikeys
    """


@key.command(cls=WritingCommand)
@click.argument("name")
@click.option(
    "--models", metavar="NAME,...", default="", help="Deployments that the key may use. By default all."
)
@number_option("--requests-per-minute", help="Requests that may start in any minute.")
@number_option("--tokens-per-minute", help="Tokens in any minute, prompts and answers together.")
@number_option("--tokens-per-day", help="Tokens a day (UTC), prompts and answers together.")
@number_option("--parallel-requests", help="Requests that may be open at the same time.")
@click.option(
    "--expires", type=END, metavar="TIME", help="End of the key: 30d, or a time such as 2027-01-31."
)
@click.option(
    "--metrics",
    is_flag=True,
    help="Let the key read the /metrics of the endpoint, which cover all keys, and of the console.",
)
@click.option(
    "--console",
    type=click.Choice(("none", "view", "operate")),
    default="none",
    show_default=True,
    help="Rights of the key in the console: view everything, or also operate the cluster.",
)
@write_options
@click.pass_obj
def create(
    settings: Settings,
    /,
    name: str,
    how: How,
    models: str,
    expires: datetime | None,
    metrics: bool,
    console: str,
    **limits: int | None,
) -> None:
    """Make a key, commit its hash, and print its secret, once.

    Nothing keeps the secret: not the repository, no log, and no file of the cluster. Only the secret goes to standard
    output, for scripts.

    \b
    Examples:
      reconciler key create open-webui
      reconciler key create ci --models small --tokens-per-day 200000 --parallel-requests 2 --expires 30d
      OPENAI_API_KEY=$(reconciler key create laptop)
      reconciler key create alice --console operate
      reconciler key create laptop -o json | jq -r .secret
    """
    from pydantic.alias_generators import to_camel

    from reconciler.source.editing import apply_documents
    from reconciler.source.yaml.documents import load
    from reconciler.source.yaml.plain import as_yaml

    _refuse_names_alone(how)
    secret = secret_of(secrets.token_bytes(RANDOM_BYTES))
    spec = {
        "hash": hash_of(secret),
        "models": [each.strip() for each in models.split(",") if each.strip()],
        "limits": {to_camel(limit): limits[limit] for limit in LIMITS if limits[limit] is not None},
        "expires": _written(expires) if expires is not None else None,
        "metrics": metrics,
        "console": console if console != "none" else None,
    }
    body = {
        "apiVersion": "reconciler/v1alpha1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {field: value for field, value in spec.items() if value},
    }
    incoming = load({"key": as_yaml(body).encode()}, part=True)

    def decide(files: Files) -> Any:
        if (KIND, name) in labels_of(files):
            text = (
                f"apikey/{name} is there already; give it another secret with: reconciler key rotate {name}"
            )
            raise Refused("AlreadyExists", text)
        return apply_documents(files, incoming)

    landed = carry_out(settings, how, decide, "Create", prepare)
    _hand_out(how, landed, name, secret)
    until_read(settings, how, landed)


@key.command(cls=WritingCommand)
@click.argument("name", shell_complete=complete.api_keys)
@click.option(
    "--overlap",
    type=DURATION,
    default="24h",
    show_default=True,
    help="Time for which the present secret stays valid; 0 ends it, and what runs with it, at once.",
)
@click.option("--expires", type=END, metavar="TIME", help="New end of the key: 90d, or a time.")
@write_options
@click.pass_obj
def rotate(settings: Settings, name: str, how: How, overlap: float, expires: datetime | None) -> None:
    """Give a key another secret, and print it, once. The present one stays valid for a while.

    \b
    Examples:
      reconciler key rotate open-webui
      reconciler key rotate open-webui --overlap 0
      reconciler key rotate open-webui --overlap 168h --expires 90d -o json
    """
    _refuse_names_alone(how)
    secret = secret_of(secrets.token_bytes(RANDOM_BYTES))
    now = datetime.now(UTC)

    def decide(files: Files) -> Any:
        from reconciler.source.editing import set_fields

        spec = _spec(files, name)
        if spec.revoked:
            raise Refused(
                "Revoked", f"apikey/{name} is revoked; make another key with: reconciler key create NAME"
            )
        values: dict[tuple[str, ...], Any] = {
            ("spec", "hash"): hash_of(secret),
            ("spec", "previous"): _previous(spec, now, overlap),
        }
        if expires is not None:
            values["spec", "expires"] = _written(expires)
        return set_fields(files, {(KIND, name): values})

    landed = carry_out(settings, how, decide, "Rotate")
    _hand_out(how, landed, name, secret)
    until_read(settings, how, landed)


@key.command(cls=WritingCommand)
@click.argument("name", shell_complete=complete.api_keys)
@write_options
@click.pass_obj
def revoke(settings: Settings, name: str, how: How) -> None:
    """Refuse a key from now on, and end what runs with it.

    The object stays, so that the key's clients learn the reason. Delete it when nobody needs it any more.

    \b
    Examples:
      reconciler key revoke open-webui
      reconciler key revoke open-webui -m "the laptop was stolen"
    """

    def decide(files: Files) -> Any:
        from reconciler.source.editing import set_fields

        _spec(files, name)
        return set_fields(files, {(KIND, name): {("spec", "revoked"): True}})

    landed = carry_out(settings, how, decide, "Revoke")
    finish(settings, how, landed, {"configured": "revoked", "unchanged": "revoked"})


def _hand_out(how: How, landed: Landed, name: str, secret: str) -> None:
    """Print the secret to standard output, and everything else to standard error; for a dry run, print no secret."""
    if how.dry:
        report(how, landed, {"configured": "rotated"})
        return
    if how.output:
        body = {"name": name, "secret": secret, "revision": landed.revision}
        print_body(body, how.output)
        return
    click.echo(f"{full_name(KIND, name)}: this is its secret, which is shown once:", err=True)
    click.echo(secret)


def _refuse_names_alone(how: How) -> None:
    if how.output == "name" and not how.dry:
        raise click.UsageError("-o name would lose the secret, which is shown once; omit it, or use -o json")


def _spec(files: Files, name: str) -> ApiKeySpec:
    """Return the spec of a key. Raises ``Refused`` if there is none."""
    from reconciler.resources.api_key import ApiKey

    manifest = document_of(files, (KIND, name)).manifest
    assert isinstance(manifest, ApiKey)
    return manifest.spec


def _previous(spec: ApiKeySpec, now: datetime, overlap: float) -> list[dict[str, str]]:
    """Return the earlier secrets to keep: the present one, and those that are still valid; of too many, the ones that end
    last."""
    from reconciler.resources.api_key import PREVIOUS_MAX

    kept = [(now + timedelta(seconds=overlap), spec.hash)]
    kept += [(secret.until, secret.hash) for secret in spec.previous if secret.until > now]
    kept.sort(reverse=True)
    return [{"hash": hashed, "until": _written(until)} for until, hashed in kept[:PREVIOUS_MAX]]


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
