"""What keeps `up` running, as actions and files; tests/root/test_systemd_service.py carries them out."""

from __future__ import annotations

import plistlib
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from reconciler.remote.bootstrap.actions import Action, Run
from reconciler.service_managers import launchd, unmanaged
from reconciler.service_managers.definitions import Keeper
from reconciler.services.up_service import Machine, UpService

HOME = Path("/u/ada/.reconciler")
NAME = "reconciler.up.ada"
UNIT = f"/etc/systemd/system/{NAME}.service"
PLIST = f"/Library/LaunchDaemons/{NAME}.plist"


def service(keeper: Keeper, administrator: str = "", home: Path = HOME) -> UpService:
    return UpService(home, Machine("ada", 501, PurePosixPath("/u/ada"), keeper, administrator))


def shown(command: tuple[str, ...]) -> str:
    return str(Run(command))


def first_lines(actions: tuple[Action, ...] | list[Action]) -> list[str]:
    """What is done, and of a pasted file its first line."""
    return [str(each.act).partition("<<'END-OF-FILE'\n")[0] for each in actions]


@pytest.mark.parametrize(
    ("keeper", "administrator", "does"),
    [
        (
            Keeper.SYSTEMD,
            "sudo",
            [
                f"$ sudo -n tee {UNIT} ",
                f"$ sudo -n chown root:root {UNIT}",
                f"$ sudo -n chmod 644 {UNIT}",
                "$ sudo -n systemctl daemon-reload",
                f"$ sudo -n systemctl enable --now {NAME}.service",
            ],
        ),
        (
            Keeper.SYSTEMD_OF_USER,
            "",
            [
                f"write /u/ada/.config/systemd/user/{NAME}.service (mode 0644, 367 bytes)",
                "$ systemctl --user daemon-reload",
                f"$ systemctl --user enable --now {NAME}.service",
            ],
        ),
        (
            Keeper.LAUNCHD,
            "",
            [
                f"$ sudo tee {PLIST} ",
                f"$ sudo chown root:wheel {PLIST}",
                f"$ sudo chmod 644 {PLIST}",
                shown(launchd.load(("sudo", "launchctl"), NAME, PLIST)),
            ],
        ),
    ],
)
def test_what_makes_it(keeper: Keeper, administrator: str, does: list[str]) -> None:
    script, *others = service(keeper, administrator).install_actions(None, None, 0, False)
    assert str(script.act).startswith("write /u/ada/.reconciler/service/serve (mode 0700")
    assert first_lines(others) == does
    by_person = keeper is Keeper.LAUNCHD
    assert [each.by_person for each in others] == [by_person] * len(others)


@pytest.mark.parametrize("keeper", [Keeper.LAUNCHD, Keeper.SYSTEMD, Keeper.SYSTEMD_OF_USER])
def test_where_all_is_in_place_nothing_is_done(keeper: Keeper) -> None:
    made = service(keeper)
    assert made.install_actions(made.script_text(), made.definition_text(), 7, True) == []
    assert made.remove_actions(None) == ()


@pytest.mark.parametrize(
    ("keeper", "does"),
    [
        (Keeper.LAUNCHD, f"$ launchctl kickstart system/{NAME}"),
        (Keeper.SYSTEMD, f"$ systemctl start {NAME}.service"),
    ],
)
def test_a_service_that_runs_nothing_is_started(keeper: Keeper, does: str) -> None:
    made = service(keeper, "root")
    assert first_lines(list(made.install_actions(made.script_text(), made.definition_text(), 0, True))) == [
        does
    ]


@pytest.mark.parametrize("keeper", [Keeper.LAUNCHD, Keeper.SYSTEMD])
def test_an_installation_that_ended_before_the_service_was_loaded_goes_on(keeper: Keeper) -> None:
    made = service(keeper, "root")
    done = first_lines(list(made.install_actions(made.script_text(), made.definition_text(), 0, False)))
    assert done[-1] in (
        shown(launchd.load(("launchctl",), NAME, PLIST)),
        f"$ systemctl enable --now {NAME}.service",
    )


def test_an_up_in_a_terminal_gives_way_before_the_service_starts() -> None:
    actions = first_lines(list(service(Keeper.SYSTEMD, "root").install_actions(None, None, 4711, False)))
    assert actions.index(shown(unmanaged.end(4711))) < actions.index(
        f"$ systemctl enable --now {NAME}.service"
    )


def test_an_up_in_a_terminal_serves_until_the_person_starts_the_service() -> None:
    """It ends between two lines that they paste, not before they do."""
    _, *others = service(Keeper.LAUNCHD, "").install_actions(None, None, 4711, False)
    assert [each.by_person for each in others] == [True] * 5
    assert str(others[3].act) == shown(unmanaged.end(4711))


def test_a_mac_lets_go_of_a_service_before_its_definition_changes() -> None:
    """So that an installation that ends in between leaves none that runs an earlier definition."""
    made = service(Keeper.LAUNCHD, "root")
    unload, _, load = first_lines(list(made.install_actions(made.script_text(), "another", 0, True)))
    assert (unload, load) == (
        shown(launchd.unload(("launchctl",), NAME)),
        shown(launchd.load(("launchctl",), NAME, PLIST)),
    )


@pytest.mark.parametrize(
    ("keeper", "does"),
    [
        (
            Keeper.SYSTEMD,
            [
                f"$ systemctl disable --now {NAME}.service",
                f"$ rm -f {UNIT}",
                "$ systemctl daemon-reload",
            ],
        ),
        (Keeper.LAUNCHD, [shown(launchd.unload(("launchctl",), NAME)), f"$ rm -f {PLIST}"]),
    ],
)
def test_what_removes_it(keeper: Keeper, does: list[str]) -> None:
    assert first_lines(tuple(service(keeper, "root").remove_actions("there"))) == does


def test_a_mac_starts_it_as_the_user_for_as_long_as_the_script_is_there() -> None:
    defined = plistlib.loads(service(Keeper.LAUNCHD).definition_text().encode())
    assert defined["UserName"] == "ada"
    assert defined["KeepAlive"] == {"PathState": {"/u/ada/.reconciler/service/serve": True}}
    assert defined["AbandonProcessGroup"] is True


def test_each_home_has_its_own_service() -> None:
    names = {service(Keeper.SYSTEMD, home=home).name for home in (HOME, Path("/srv/a"), Path("/srv/b"))}
    assert len(names) == 3
    assert NAME in names


def test_the_script_waits_for_a_living_command_that_replaces_the_version_and_runs_what_is_current(
    tmp_path: Path,
) -> None:
    """With `python` being a script that shows how it was called."""
    home = tmp_path / "my home"
    python = home / "versions" / "0.1.0" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$0 $* token=$TOKEN"\n')
    python.chmod(0o700)
    (home / "versions" / "current").symlink_to("0.1.0")
    (home / "service").mkdir()
    (home / "service" / "environment").write_text("TOKEN=t\n")
    made = service(Keeper.SYSTEMD, home=home)
    made.script.write_text(made.script_text())
    with subprocess.Popen(["sleep", "60"]) as switching:
        (home / "versions" / "switching").write_text(f"{switching.pid}\n")
        with subprocess.Popen(["sh", str(made.script)], stdout=subprocess.PIPE, text=True) as running:
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(0.5)
            switching.kill()
            switching.wait(10)
            told, _ = running.communicate(timeout=10)
    assert told == f"{python} -P -m reconciler --home {home} up token=t\n"
