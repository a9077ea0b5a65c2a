"""The file ``source.yaml``: what it may say, and what is said of what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import InvalidManifests
from reconciler.resources.git_repository import host_and_project, scheme_of
from reconciler.source.mirror.settings import load_settings, parsed, write_settings

HEAD = "apiVersion: reconciler/v1alpha1\nkind: GitRepository\nspec:\n"
SSH = "  secretRef: {ssh: {keyFile: /k, knownHostsFile: /h}}\n"


def problem(text: str) -> str:
    with pytest.raises(InvalidManifests) as told:
        parsed("source.yaml", text.encode())
    return str(told.value)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "  url: /srv/x\n  intervall: 3s\n",
            'source.yaml:5:3: spec.intervall: unknown field, did you mean "interval"?',
        ),
        (
            "  url: /srv/x\n  interval: 1s\n",
            "source.yaml:5:13: spec.interval: expected a duration from 5s to 24h",
        ),
        ("  url: relative/path\n", "source.yaml:4:8: spec.url: not https://"),
        ("  url: ext::sh -c id\n", "source.yaml:4:8: spec.url: not https://"),
        ("  url: --upload-pack=id\n", "source.yaml:4:8: spec.url: not https://"),
        ("  url: ssh://-oProxyCommand=id/x\n" + SSH, "spec.url: not a URL such as"),
        ("  url: http://git.example.com/x\n", "http to another machine can be read and changed on the way"),
        ("  url: git@host:x\n", "source.yaml:4:3: spec: a URL of SSH needs secretRef.ssh"),
        ("  url: /srv/x\n  ref: {branch: ../x}\n", 'expected the name of a branch such as "main"'),
        ("  url: /srv/x\n  path: ../x\n", 'expected a folder of the repository such as "clusters/studio"'),
        ("  url: /srv/x\n  verify: {allowedSigners: /s, since: abc}\n", "expected a full commit id"),
        ("  url: /srv/x\n  receiver: {secret: {file: /a, env: B}}\n", "use exactly one of env and file"),
    ],
)
def test_a_mistake_is_told_with_its_place(body: str, told: str) -> None:
    assert told in problem(HEAD + body)


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    told = problem(HEAD + "  url: https://me:s3cret@git.example.com/x\n")
    assert "without a user" in told
    assert "s3cret" not in told


def test_what_is_written_is_read_again_and_readable_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "source.yaml"
    assert load_settings(file) is None
    spec = parsed(
        "source.yaml", f"{HEAD}  url: git@host:team/x.git\n  path: a/b\n  interval: 90s\n{SSH}".encode()
    )
    write_settings(file, spec)
    assert load_settings(file) == spec
    assert file.stat().st_mode & 0o777 == 0o600
    assert "interval: 90s" in file.read_text()


@pytest.mark.parametrize(
    ("url", "scheme", "host", "project"),
    [
        ("https://git.example.com/team/x.git", "https", "git.example.com", "team/x"),
        ("ssh://git@git.example.com:2222/team/x.git", "ssh", "git.example.com", "team/x"),
        ("git@github.com:team/sub/x.git", "ssh", "github.com", "team/sub/x"),
        ("file:///srv/x.git", "file", "", "srv/x"),
        ("/srv/x.git", "file", "", "srv/x"),
    ],
)
def test_a_url_says_how_to_reach_what(url: str, scheme: str, host: str, project: str) -> None:
    assert (scheme_of(url), *host_and_project(url)) == (scheme, host, project)
