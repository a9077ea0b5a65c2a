"""Where keys are on, the console asks for one, and forgets who logged in when the key ends."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reconciler.console.access.attempts import AGAIN_SECONDS, WRONG_MAX
from reconciler.console.access.door import Door, Doors
from reconciler.console.access.sessions import SESSION_SECONDS
from reconciler.console.access.visitor import visitor_of
from reconciler.console.server import _Console
from reconciler.console.settings import Places, settings_of
from reconciler.console.snapshot import Snapshot
from reconciler.resources.gateway import CONSOLE_LISTEN

from .doors import OWNER, Time, client_of, doors_of, key, secret, with_keys
from .snapshots import recorded

ALICE, VICTOR, NOBODY = 1, 2, 3
KEYS = (key("alice", ALICE, "operate"), key("victor", VICTOR, "view"), key("client", NOBODY, "none"))


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def doors(clock: Time) -> Doors:
    return doors_of(with_keys(recorded("four-macs"), *KEYS), clock)


@pytest.fixture
def client(doors: Doors) -> TestClient:
    return client_of(doors)


def log_in(client: TestClient, number: int, path: str = "/login") -> int:
    """Show a key; the status of the answer."""
    return client.post(path, data={"key": secret(number)}).status_code


def told(client: TestClient) -> list[object]:
    """What a page learns of who has asked."""

    def answer(request: Request) -> JSONResponse:
        visitor = visitor_of(request)
        person = visitor.author()
        return JSONResponse([person.name, person.email, visitor.operate, visitor.secret])

    client.app.routes.append(Route("/who", answer))  # type: ignore[attr-defined]
    return client.get("/who").json()  # type: ignore[no-any-return]


def test_without_keys_everybody_of_this_machine_operates_in_the_accounts_name() -> None:
    client = client_of(doors_of(recorded("four-macs")))
    assert client.get("/").status_code == 200
    assert told(client) == [OWNER.name, OWNER.email, True, ""]


@pytest.mark.parametrize("path", ["/", "/cabling", "/deployments/large", "/live/", "/live/cabling"])
def test_nothing_is_told_without_a_key(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (303, 401)
    assert "studio" not in answer.text


def test_a_login_leads_to_the_page_that_was_asked_for(client: TestClient) -> None:
    asked = client.get("/deployments/large?wall=1")
    assert asked.status_code == 303
    assert "API key" in client.get(asked.headers["location"]).text
    answer = client.post(asked.headers["location"], data={"key": secret(VICTOR)})
    assert answer.headers["location"] == "/deployments/large?wall=1"
    assert "large" in client.get("/deployments/large").text


def test_a_key_says_who_acts_and_whether_it_may(client: TestClient) -> None:
    log_in(client, VICTOR)
    assert told(client) == ["victor", "victor@apikey.invalid", False, secret(VICTOR)]
    log_in(client, ALICE)
    assert told(client) == ["alice", "alice@apikey.invalid", True, secret(ALICE)]


def test_a_program_sends_its_key_with_each_request(client: TestClient) -> None:
    assert client.get("/", headers={"authorization": f"Bearer {secret(VICTOR)}"}).status_code == 200
    assert client.get("/", headers={"authorization": f"Bearer {secret(9)}"}).status_code == 401


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (secret(9), "No key has this secret"),
        (secret(ALICE)[:-1], "cut off or mistyped"),
        (secret(NOBODY), "may not open the console"),
        ("", "No key has this secret"),
    ],
)
def test_what_opens_nothing_is_refused_and_says_why(client: TestClient, shown: str, said: str) -> None:
    answer = client.post("/login", data={"key": shown})
    assert answer.status_code == 401
    assert said in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "spec",
    [
        {"revoked": True},
        {"expires": "2025-11-25T00:00:00Z"},
        {
            "previous": [{"hash": key("", ALICE, "")["spec"]["hash"], "until": "2025-11-25T00:00:00Z"}],
            "hash": "other",
        },
    ],
    ids=["revoked", "expired", "rotated"],
)
def test_a_key_that_ends_ends_its_sessions(doors: Doors, client: TestClient, spec: dict[str, object]) -> None:
    log_in(client, ALICE)
    assert client.get("/").status_code == 200
    doors.feed.snapshot = with_keys(doors.feed.snapshot, key("alice", ALICE, "operate", **spec))
    assert client.get("/").status_code == 303
    assert log_in(client, ALICE) == 401


def test_a_right_that_is_taken_away_is_gone_with_the_next_request(doors: Doors, client: TestClient) -> None:
    log_in(client, ALICE)
    doors.feed.snapshot = with_keys(doors.feed.snapshot, key("alice", ALICE, "view"))
    assert told(client)[2] is False


def test_a_session_ends_with_its_time_and_with_the_logout(clock: Time, client: TestClient) -> None:
    log_in(client, ALICE)
    clock.now += SESSION_SECONDS
    assert client.get("/").status_code == 303
    log_in(client, ALICE)
    before = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    assert client.post("/logout").status_code == 303
    assert client.get("/", headers={"cookie": before}).status_code == 303


def test_the_cookie_is_for_this_console_alone(client: TestClient, doors: Doors) -> None:
    plain = client.post("/login", data={"key": secret(ALICE)}).headers["set-cookie"]
    assert plain.startswith("reconciler-8480=")
    assert "HttpOnly" in plain
    assert "SameSite=strict" in plain
    assert secret(ALICE) not in plain
    sealed = client_of(doors, "https://127.0.0.1:8480").post("/login", data={"key": secret(ALICE)})
    assert sealed.headers["set-cookie"].startswith("__Host-reconciler-8480=")
    assert "Secure" in sealed.headers["set-cookie"]


def test_behind_a_declared_proxy_the_cookie_is_for_tls_alone_by_the_names_of_the_proxy(clock: Time) -> None:
    spec = {
        "hosts": ["console.example"],
        "console": {"enabled": True, "listen": "0.0.0.0:8480", "tlsProxy": True},
    }
    doors = doors_of(with_keys(recorded("four-macs"), *KEYS, **spec), clock)
    client = client_of(doors, "http://console.example")
    assert "not encrypted" not in client.get("/login").text
    answer = client.post("/login", data={"key": secret(ALICE)}, headers={"origin": "https://console.example"})
    kept = answer.headers["set-cookie"]
    assert kept.startswith("__Host-reconciler-443=")
    assert "Secure" in kept
    shown = {"cookie": kept.partition(";")[0]}
    assert client.get("/", headers=shown).status_code == 200
    assert "Secure" in client.post("/logout", headers=shown).headers["set-cookie"]
    assert client.get("/", headers=shown).status_code == 303
    direct = client_of(doors).post("/login", data={"key": secret(ALICE)}).headers["set-cookie"]
    assert direct.startswith("reconciler-8480=")


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_login_leads_nowhere_else(client: TestClient, target: str) -> None:
    answer = client.post("/login", params={"next": target}, data={"key": secret(ALICE)})
    assert answer.headers["location"] == "/"


def test_wrong_keys_are_limited_by_address_and_the_right_one_always_gets_in(
    clock: Time, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert [log_in(client, 9) for _ in range(WRONG_MAX)] == [401] * WRONG_MAX
    lines = caplog.text.count("refused a key")
    assert [log_in(client, 9) for _ in range(200)] == [429] * 200
    assert caplog.text.count("refused a key") == lines, "what is not answered fills no log"
    assert log_in(client, ALICE) == 303
    assert log_in(client, 9) == 429, "the right one frees no wrong ones"
    clock.now += AGAIN_SECONDS
    assert [log_in(client, 9), log_in(client, 9)] == [401, 429]
    clock.now += 3600
    assert log_in(client, 9) == 401


def test_a_program_with_the_right_key_is_let_in_beside_one_with_wrong_ones(client: TestClient) -> None:
    def shown(number: int) -> int:
        return client.get("/", headers={"authorization": f"Bearer {secret(number)}"}).status_code

    assert [shown(9) for _ in range(WRONG_MAX + 2)] == [401] * WRONG_MAX + [429, 429]
    assert shown(ALICE) == 200
    assert shown(9) == 429


@pytest.mark.parametrize("ahead", [86_400.0, 365 * 86_400.0])
def test_a_clock_that_was_ahead_extends_no_session_and_no_refusal(
    clock: Time, client: TestClient, ahead: float
) -> None:
    clock.now += ahead
    for _ in range(WRONG_MAX + 1):
        log_in(client, 9)
    log_in(client, ALICE)
    assert client.get("/", follow_redirects=False).status_code == 200
    clock.now -= ahead
    assert client.get("/", follow_redirects=False).status_code == 303
    assert log_in(client, 9) == 401


def test_the_log_tells_of_logins_and_refusals_and_never_a_secret(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log_in(client, ALICE)
    log_in(client, 9)
    log_in(client, NOBODY)
    client.post("/logout")
    assert "login of key alice" in caplog.text
    assert "refused a key from" in caplog.text
    assert "refused a key (client)" in caplog.text
    assert "logout" in caplog.text
    assert "reconciler_" not in caplog.text


def test_a_page_of_another_site_logs_nobody_in_or_out(client: TestClient) -> None:
    for path in ("/login", "/logout"):
        answer = client.post(path, data={"key": secret(ALICE)}, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403


def test_keys_are_asked_for_until_it_is_known_that_none_are_needed() -> None:
    assert settings_of(Snapshot(), keys_before=True).keys
    assert not settings_of(recorded("four-macs"), keys_before=True).keys


@pytest.mark.parametrize("left_out", ["auth", "console", "hosts"])
def test_what_an_older_controller_leaves_out_is_as_by_default_and_keys_as_they_were(left_out: str) -> None:
    snapshot = with_keys(recorded("four-macs"))
    gateway: Any = snapshot.gateway
    del gateway["spec"][left_out]
    settings = settings_of(snapshot, keys_before=True)
    assert settings.keys
    assert settings.hosts == ()
    assert settings.listen == (CONSOLE_LISTEN if left_out == "console" else "0.0.0.0:8480")


def test_a_console_is_on_unless_it_is_declared_off() -> None:
    assert settings_of(with_keys(recorded("four-macs"), console={})).listen == CONSOLE_LISTEN
    assert settings_of(with_keys(recorded("four-macs"), console={"enabled": False})).listen is None


async def test_keys_that_are_declared_while_the_console_runs_are_asked_for_when_nothing_is_known_any_more(
    tmp_path: Path,
) -> None:
    places = Places(tmp_path / "controller.sock", tmp_path / "console.json", tmp_path, Time())
    console = _Console(places, any_port=True)
    console._feed.snapshot = with_keys(recorded("four-macs"), console={"enabled": False})
    await console._follow()
    console._feed.snapshot = Snapshot()
    assert console._wanted().keys


@pytest.mark.parametrize("declared", [{}, {"enabled": False}])
async def test_a_state_file_that_was_removed_or_damaged_is_written_again(
    tmp_path: Path, declared: dict[str, bool]
) -> None:
    places = Places(tmp_path / "controller.sock", tmp_path / "console.json", tmp_path, Time())
    console = _Console(places, any_port=True)
    console._feed.snapshot = with_keys(recorded("four-macs"), console={"listen": "127.0.0.1:0", **declared})
    await console._follow()
    written = places.state.read_bytes()
    places.state.unlink()
    await console._follow()
    assert places.state.read_bytes() == written
    places.state.write_bytes(bytes(100))
    await console._follow()
    assert places.state.read_bytes() == written
    await console._end()


async def until_revoked(doors: Doors, app: ASGIApp) -> list[Message]:
    """What a browser is sent whose key is revoked while an application answers it."""
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    bearer = (b"authorization", f"Bearer {secret(ALICE)}".encode())
    scope = {"type": "http", "method": "GET", "path": "/live/", "query_string": b"", "headers": [bearer]}
    watching = asyncio.create_task(doors.watch())
    answer = asyncio.create_task(Door(app, doors)(scope, receive, send))
    await asyncio.sleep(0.05)
    doors.feed.snapshot = with_keys(doors.feed.snapshot, key("alice", ALICE, "operate", revoked=True))
    async with asyncio.timeout(5):
        await answer
    watching.cancel()
    return sent


async def test_open_streams_end_when_their_key_does(doors: Doors) -> None:
    async def endless(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    sent = await until_revoked(doors, endless)
    assert sent[0] == {"type": "http.response.start", "status": 200, "headers": []}
    assert sent[1:] == [{"type": "http.response.body", "body": b""}]


async def test_a_request_that_waits_is_refused_when_its_key_ends(doors: Doors) -> None:
    async def silent(_: Scope, __: Receive, ___: Send) -> None:
        await asyncio.Event().wait()

    sent = await until_revoked(doors, silent)
    assert [message.get("status") for message in sent] == [401, None]


async def test_an_application_that_still_answers_when_a_key_ends_gives_the_one_answer(doors: Doors) -> None:
    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            await PlainTextResponse("done")(scope, receive, send)

    sent = await until_revoked(doors, late)
    assert [message.get("status") for message in sent] == [200, None]


async def test_who_watches_sessions_lets_others_work_where_no_keys_are_needed() -> None:
    watching = asyncio.create_task(doors_of(recorded("four-macs")).watch())
    await asyncio.sleep(0.05)
    assert not watching.done()
    watching.cancel()
