"""The file of contexts: strict, edited in place, and what a command is for."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from reconciler.cli.contexts.contexts_file import Context, read
from reconciler.cli.core.app import settings_of
from reconciler.errors import InvalidManifests, Refused
from tests.cli.conftest import Cli

STUDIO = "  studio: {ssh: 'ssh://admin@studio.local:2222', home: /opt/reconciler}\n"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in ("RECONCILER_HOME", "RECONCILER_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "reconciler"
    folder.mkdir()
    return folder / "contexts.yaml"


def test_a_file_names_clusters_here_and_elsewhere(file: Path) -> None:
    file.write_text(f"current: studio\ncontexts:\n{STUDIO}  test: {{home: ~/test}}\n")
    found = read(file)
    assert found.current == "studio"
    assert found.found["studio"] == Context("studio", "/opt/reconciler", "ssh://admin@studio.local:2222")
    assert found.found["test"].where == "~/test"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("contexts: [a]\n", "1:1: contexts: expected a mapping"),
        ("context: {}\n", '1:1: context: unknown field; did you mean "contexts"?'),
        ("contexts:\n  a: {hom: /x}\n", '2:7: contexts.a.hom: unknown field; did you mean "home"?'),
        ("contexts:\n  a: {home: 3}\n", "2:7: contexts.a.home: expected text, got 3"),
        ("contexts:\n  a: {}\n", "2:3: contexts.a.home: missing: expected the state folder"),
        ("contexts:\n  a: {ssh: studio, home: /x}\n", "2:7: contexts.a.ssh: expected ssh://admin@studio.local or"),
        ("contexts:\n  a: {ssh: 'ssh://h', home: x}\n", "contexts.a.home: expected the absolute path"),
        ("contexts:\n  a: {ssh: 'ssh://-oProxyCommand=x', home: /x}\n", "contexts.a.ssh: expected"),
        ("current: b\ncontexts:\n  a: {home: /x}\n", "1:1: current: there is no context 'b'; expected one of a"),
        ("contexts:\n  -a: {home: /x}\n", "2:3: contexts.-a: expected a name of letters"),
        ("a: &x 1\n", 'an anchor ("&")'),
    ],
)  # fmt: skip
def test_every_mistake_has_its_place(text: str, problem: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(InvalidManifests) as raised:
        read(file)
    assert problem in str(raised.value)


def test_commands_edit_the_file_and_keep_what_people_wrote(cli: Cli, file: Path, tmp_path: Path) -> None:
    file.write_text(f"# mine\ncontexts:\n{STUDIO}")
    assert cli("context", "add", "test", str(tmp_path)).out == f'context "test" added: {tmp_path}\n'
    assert cli("context", "use", "test").out == 'Switched to context "test".\n'
    assert file.read_text().startswith("# mine\ncontexts:\n")
    assert STUDIO.strip() in file.read_text()
    listed = cli("context", "list").out.splitlines()
    assert listed[0].split() == ["CURRENT", "NAME", "WHERE"]
    assert listed[1].split() == ["studio", "ssh://admin@studio.local:2222/opt/reconciler"]
    assert listed[2].split() == ["*", "test", str(tmp_path)]
    assert cli("context", "remove", "test").code == 0
    assert read(file).current == ""
    assert list(read(file).found) == ["studio"]


def test_kubectl_s_words_work_and_say_what_they_are_here(cli: Cli, file: Path) -> None:
    file.write_text(f"contexts:\n{STUDIO}")
    result = cli("config", "use-context", "studio")
    assert (result.code, result.out) == (0, 'Switched to context "studio".\n')
    assert result.err.startswith("note: here it is: reconciler context use NAME\n")
    assert cli("config", "current-context").out == "studio\n"
    assert cli("config", "get-contexts", "-o", "name").out == "studio\n"
    assert 'there is no context "studo"' in cli("config", "use-context", "studo").err


def test_a_command_is_for_its_options_then_the_environment_then_the_current_context(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_of(None, None).place == Path("~/.reconciler").expanduser()
    file.write_text("current: b\ncontexts:\n  a: {home: /a}\n  b: {home: /b}\n")
    assert settings_of(None, None).place == Path("/b")
    monkeypatch.setenv("RECONCILER_CONTEXT", "a")
    assert settings_of(None, None).place == Path("/a")
    assert settings_of(Path("/c"), None).place == Path("/c")
    monkeypatch.setenv("RECONCILER_HOME", "/d")
    assert settings_of(None, "b").place == Path("/b")
    with pytest.raises(click.UsageError, match="unset one"):
        settings_of(None, None)
    with pytest.raises(click.UsageError, match="exclude each other"):
        settings_of(Path("/c"), "a")
    with pytest.raises(Refused, match='did you mean "a"'):
        settings_of(None, "aa")


def test_what_needs_the_files_of_a_home_says_where_to_type_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from reconciler.cli.core.app import run

    file.write_text(f"contexts:\n{STUDIO}")
    monkeypatch.setattr("sys.argv", ["reconciler", "up", "--context", "studio"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "error: this works on the machine of the cluster (studio): "
        "ssh -p 2222 -t admin@studio.local reconciler --home /opt/reconciler up\n"
    )
