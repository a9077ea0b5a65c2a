"""`source`: take the manifests from a remote repository, and show its state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reconciler.cli.core.app import Settings, SuggestingGroup
from reconciler.cli.core.client import Client, ask
from reconciler.cli.core.commits import refuse_watched_folder
from reconciler.cli.core.durations import DURATION
from reconciler.cli.core.waiting import timeout_option
from reconciler.cli.output.form import output_option, print_body
from reconciler.cli.output.screen import quiet_screen
from reconciler.cli.output.typed import typed
from reconciler.errors import Invalid, InvalidManifests, Refused, Unreachable
from reconciler.wire import answers
from reconciler.wire.admin import Look, ShowSource

if TYPE_CHECKING:
    from reconciler.resources.git_repository import GitRepositorySpec

F = TypeVar("F", bound=Callable[..., Any])

WAIT_SECONDS = 2.0
"""Longest time that the controller may delay an answer while nothing is new."""
FORGES = ("github", "gitlab", "forgejo", "gitea", "none")
_OPTIONS = {
    "spec.url": "URL",
    "spec.ref.branch": "--branch",
    "spec.path": "--path",
    "spec.interval": "--interval",
    "spec.secretRef.ssh.keyFile": "--ssh-key",
    "spec.secretRef.ssh.knownHostsFile": "--known-hosts",
    "spec.verify.since": "--signed-since",
    "spec.forge.url": "--forge-url",
    "spec.forge.project": "--forge-project",
}
"""The options of the command line that set the fields."""


@click.group(cls=SuggestingGroup)
def source() -> None:
    """Take the manifests from a remote git repository.

    Then `main` of this home's own repository follows the remote's branch, and changes are pushed there. Cordoning and
    other operations stay here.

    \b
    Examples:
      reconciler source set https://git.example.com/team/cluster.git --token-file ~/.config/reconciler/token
      reconciler source show
      reconciler source sync
      reconciler source unset
    """


def _secret_options(name: str, text: str) -> Callable[[F], F]:
    file = click.option(f"--{name}-file", metavar="FILE", help=f"File with {text}.")
    help_text = f"Variable of `reconciler up` with {text}."
    variable = click.option(f"--{name}-env", metavar="VARIABLE", help=help_text)
    return lambda command: file(variable(command))


@source.command("set")
@click.argument("url", required=False)
@click.option("--branch", metavar="NAME", help="The branch to follow. By default main.")
@click.option("--path", metavar="FOLDER", help="Folder with the manifests. By default the whole repository.")
@click.option("--interval", type=DURATION, metavar="DURATION", help="How often to look. By default 60s.")
@click.option("--ssh-key", metavar="FILE", help="Private key that may read the repository over SSH.")
@click.option(
    "--known-hosts", metavar="FILE", help="Host keys of the SSH server, as ssh-keyscan prints them."
)
@_secret_options("token", "the token for HTTPS")
@click.option("--ca-file", metavar="FILE", help="Certificates of the authorities to trust for HTTPS.")
@click.option(
    "--allowed-signers", metavar="FILE", help="Take only commits that these people have signed with SSH keys."
)
@click.option("--signed-since", metavar="COMMIT", help="Commit after which signatures begin.")
@click.option(
    "--allow-rewind/--no-allow-rewind", default=None, help="Allow the branch to lose commits, or not."
)
@_secret_options("webhook-secret", "the secret of the webhook at /hooks/git")
@click.option("--forge", type=click.Choice(FORGES), help="Show the state of each commit there.")
@click.option("--forge-url", metavar="URL", help="Base URL of its interface. By default it follows from URL.")
@click.option("--forge-project", metavar="NAME", help="The repository there. By default it follows from URL.")
@_secret_options("forge-token", "the token for the forge. By default the one for HTTPS")
@click.option("--comment/--no-comment", default=None, help="Comment on pull requests with the plan, or not.")
@click.pass_obj
def set_(settings: Settings, /, url: str | None, **options: Any) -> None:
    """Follow a remote repository. Options that you omit stay as they were.

    Secrets are only named here, by a file or a variable. Host keys of SSH are pinned by a file.

    \b
    Examples:
      reconciler source set https://git.example.com/team/cluster.git --token-file ~/.config/reconciler/token
      reconciler source set git@git.example.com:team/all.git --ssh-key ~/.ssh/c --known-hosts ~/.ssh/c_hosts
      reconciler source set --path clusters/studio --branch release
      reconciler source set --allowed-signers ~/.config/reconciler/signers --interval 30s
    """
    from reconciler.cli.core.commits import prepare
    from reconciler.source.git.repository import ClusterRepo
    from reconciler.source.mirror.looking import configure
    from reconciler.source.mirror.settings import NAME, load_settings, parsed, write_settings
    from reconciler.source.yaml.plain import as_yaml

    refuse_watched_folder(settings)
    file = settings.home / NAME
    before = load_settings(file)
    if before is None and url is None:
        raise Invalid("no remote repository is set yet: begin with reconciler source set URL")
    if before is None and options["path"] is None and (settings.repo / "HEAD").exists():
        options["path"] = ClusterRepo(settings.repo).folder()  # `source unset` has left it
    spec = _body(before, url, options)
    try:
        body = {"apiVersion": "reconciler/v1alpha1", "kind": "GitRepository", "spec": spec}
        wanted = parsed(NAME, as_yaml(body).encode())
    except InvalidManifests as error:
        words = [f"{_OPTIONS.get(problem.path, problem.path)}: {problem.text}" for problem in error.problems]
        raise Invalid("; ".join(words)) from None
    repo = prepare(settings)
    write_settings(file, wanted)
    configure(repo, wanted)
    click.echo(f"main follows {wanted.ref.branch} of {wanted.url}, every {wanted.interval:g} s")
    _tell(settings)


def _body(before: GitRepositorySpec | None, url: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings for their file: the earlier ones with the given options."""
    from reconciler.resources.git_repository import scheme_of

    spec: dict[str, Any] = (
        before.model_dump(mode="json", by_alias=True, exclude_defaults=True) if before is not None else {}
    )
    if url is not None:
        if before is not None and scheme_of(url) != scheme_of(before.url):
            spec.pop("secretRef", None)
        spec["url"] = str(Path(url).expanduser().absolute()) if url.startswith((".", "~")) else url
    given = {
        ("ref", "branch"): options["branch"],
        ("path",): options["path"],
        ("interval",): f"{options['interval']:.3f}s" if options["interval"] is not None else None,
        ("secretRef", "ssh", "keyFile"): _absolute(options["ssh_key"]),
        ("secretRef", "ssh", "knownHostsFile"): _absolute(options["known_hosts"]),
        ("caFile",): _absolute(options["ca_file"]),
        ("verify", "allowedSigners"): _absolute(options["allowed_signers"]),
        ("verify", "since"): options["signed_since"],
        ("allowRewind",): options["allow_rewind"],
        ("secretRef", "token"): _secret(options, "token"),
        ("receiver", "secret"): _secret(options, "webhook_secret"),
        ("forge", "type"): options["forge"],
        ("forge", "url"): options["forge_url"],
        ("forge", "project"): options["forge_project"],
        ("forge", "comment"): options["comment"],
        ("forge", "token"): _secret(options, "forge_token"),
    }
    for place, value in given.items():
        if value is not None:
            _put(spec, place, value)
    return _with_forge(spec)


def _with_forge(spec: dict[str, Any]) -> dict[str, Any]:
    """Drop a forge that is not wanted; give a forge without a token the token for HTTPS."""
    forge = spec.get("forge")
    if forge is None or forge.get("type") == "none":
        return {name: value for name, value in spec.items() if name != "forge"}
    token = spec.get("secretRef", {}).get("token", {})
    place = {name: token[name] for name in ("env", "file") if name in token}
    return {**spec, "forge": {**({"token": place} if place else {}), **forge}}


def _put(spec: dict[str, Any], place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        spec = spec.setdefault(name, {})
    spec[place[-1]] = value


def _absolute(path: str | None) -> str | None:
    return str(Path(path).expanduser().absolute()) if path is not None else None


def _secret(options: dict[str, Any], name: str) -> dict[str, str] | None:
    file, variable = options[f"{name}_file"], options[f"{name}_env"]
    found = {"file": _absolute(file), "env": variable}
    return {key: value for key, value in found.items() if value is not None} or None


@source.command()
@output_option()
@click.pass_obj
def show(settings: Settings, output: str | None) -> None:
    """Show the remote repository and its state.

    \b
    Examples:
      reconciler source show
      reconciler source show -o json
    """
    from reconciler.source.mirror.settings import NAME, load_settings

    spec = load_settings(settings.home / NAME)
    body = _asked(settings)
    written = spec.model_dump(mode="json", by_alias=True, exclude_none=True) if spec is not None else None
    lines = [f"no remote repository is set: the truth is {settings.repo}"]
    if spec is not None:
        lines = [typed(f"{name + ':':<12}{value}") for name, value in _rows(spec, body)]
    print_body({"spec": written, "status": body}, output, lines)


def _asked(settings: Settings) -> answers.SourceState | None:
    try:
        return ask(settings.socket, ShowSource())
    except Unreachable:
        return None


def _rows(spec: GitRepositorySpec, body: answers.SourceState | None) -> list[tuple[str, str]]:
    rows = [("URL", spec.url), ("Branch", spec.ref.branch)]
    rows += [("Path", spec.path)] if spec.path else []
    rows += [("Interval", f"{spec.interval:g} s")]
    rows += list(_files(spec))
    rows += [("Signatures", f"every commit, by {spec.verify.allowed_signers}")] if spec.verify else []
    rows += [("Webhook", "/hooks/git at the endpoint")] if spec.receiver else []
    rows += [("Forge", spec.forge.type)] if spec.forge else []
    if body is None:
        return [*rows, ("Status", "no controller is running; start it with: reconciler up")]
    if body.get("problem"):
        return [*rows, ("Status", body["problem"])]
    for condition in body.get("conditions", ()):
        if condition["type"] == "Ready":
            rows.append(("Status", f"{condition['reason']}: {condition['message']}"))
    if since := body.get("awaySince"):
        rows.append(("Away since", since))
    return rows


def _files(spec: GitRepositorySpec) -> Iterator[tuple[str, str]]:
    """Yield what each file is for: messages name a file alone."""
    ssh, token = spec.secret_ref.ssh, spec.secret_ref.token
    if ssh is not None:
        yield "SSH key", str(ssh.key_file)
        yield "Host keys", str(ssh.known_hosts_file)
    if token is not None:
        yield "Token", str(token.file or f"variable {token.env}")
    if spec.ca_file is not None:
        yield "Authorities", str(spec.ca_file)


@source.command()
@click.pass_obj
def unset(settings: Settings) -> None:
    """Follow no remote repository any more: the truth is here again, with all commits that came.

    \b
    Example:
      reconciler source unset
    """
    from reconciler.source.git.repository import ClusterRepo
    from reconciler.source.mirror.looking import configure
    from reconciler.source.mirror.settings import NAME

    file = settings.home / NAME
    if not file.exists():
        click.echo("no remote repository was set")
        return
    file.unlink()
    configure(ClusterRepo(settings.repo), None)
    click.echo(f"the truth is {settings.repo} again")
    _tell(settings)


@source.command()
@timeout_option("60s")
@click.pass_obj
def sync(settings: Settings, timeout: float) -> None:
    """Look at the remote repository now, and wait for the result.

    \b
    Example:
      reconciler source sync
    """
    progress, deadline = quiet_screen(timed=True), time.monotonic() + timeout if timeout > 0 else float("inf")
    with Client(settings.socket) as client:
        before = client.ask(ShowSource())
        if not before or before.get("problem"):
            raise Refused(
                "NoSource", before.get("problem") or "no remote repository is set: reconciler source set URL"
            )
        client.ask(Look("remote", time.time()))
        looks, body = before["looks"], before
        while body.get("looks", 0) <= looks:
            if time.monotonic() >= deadline:
                progress.clear()
                raise Refused(
                    "Timeout",
                    f"no answer of {before['url']} within {timeout:g} s; see: reconciler source show",
                )
            progress.show(f"waiting for {before['url']}")
            body = client.ask(ShowSource(looks, WAIT_SECONDS), WAIT_SECONDS)
    progress.clear()
    ready = next(condition for condition in body["conditions"] if condition["type"] == "Ready")
    if ready["status"] != "True":
        raise Refused(ready["reason"], ready["message"])
    click.echo(f"{body['url']} is at {(body['revision'] or '')[:10]}, and so is main")


def _tell(settings: Settings) -> None:
    """Let the controller read the settings now; one that is not running reads them when it starts."""
    try:
        ask(settings.socket, Look("remote"))
    except Unreachable:
        click.echo("note: no controller is running; it follows the repository when it starts", err=True)
