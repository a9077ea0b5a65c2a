"""The chat in Chromium, with a gateway that says whatever a model could."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.chat.gateway_double import (
    END,
    GROUP,
    GatewayDouble,
    Script,
    chunk,
    console_at,
    gateway_double,
    said,
    whole,
)

from .everybody import violations
from .pages import opened

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
MARKDOWN = f"""# Plan

Two steps, **both** short:

1. Read the `manifest`:
   - its kind
   - its *spec*
2. Apply it. {HOSTILE}

```sh
reconciler apply -f tiny.yaml   # {HOSTILE}
```

| node | GiB |
|------|----:|
| studio-1 | 512 |

> {HOSTILE}
"""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[GatewayDouble, str]]:
    with gateway_double() as double, console_at(double.url) as address:
        yield double, address


@pytest.fixture
def page(browser: Browser, both: tuple[GatewayDouble, str]) -> Iterator[Page]:
    with opened(browser, both[1], "/chat/large") as page:
        yield page


@pytest.fixture
def gateway(both: tuple[GatewayDouble, str]) -> GatewayDouble:
    both[0].reset()
    return both[0]


def says(*parts: bytes) -> Script:
    async def stream(_: GatewayDouble) -> AsyncIterator[bytes]:
        for part in (chunk(group=GROUP), *parts, END):
            yield part

    return stream


def send(page: Page, text: str) -> None:
    field = page.get_by_label("Message to large")
    field.fill(text)
    field.press("Enter")


def test_lists_tables_and_code_are_read_and_html_is_not(page: Page, gateway: GatewayDouble) -> None:
    gateway.stream = says(*(said(character) for character in MARKDOWN), said("", "stop"))
    send(page, HOSTILE)
    told = page.locator(".chat-told")
    expect(told).to_contain_text("Answered by epoch 7 on studio-1..4")
    text = page.locator(".chat-answer").last
    expect(text.locator("h3")).to_have_text("Plan")
    expect(text.locator("> ol > li")).to_have_count(2)
    expect(text.locator("ol ul > li em")).to_have_text("spec")
    expect(text.locator("pre")).to_have_text(f"reconciler apply -f tiny.yaml   # {HOSTILE}")
    expect(text.locator("td.number")).to_have_text("512")
    expect(text.locator("blockquote")).to_have_text(HOSTILE)
    expect(page.locator(".chat-person .chat-plain")).to_have_text(HOSTILE)
    assert page.locator(".chat-log :is(img, script)").count() == 0
    assert page.title().startswith("Chat with large")
    assert violations(page) == []
    page.reload()
    expect(page.locator(".chat-answer h3")).to_have_text("Plan")


def test_thinking_is_apart_and_calls_of_tools_wait_for_their_results(
    page: Page, gateway: GatewayDouble
) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{"city": "Ulm"}'}}
    gateway.stream = says(
        said("", reasoning_content="Where is *that*?"),
        said("", tool_calls=[call]),
        said("", tool_calls=[rest]),
        said("", "tool_calls"),
    )
    page.get_by_text("Settings").click()
    page.get_by_label("Tools, as JSON").fill("[")
    send(page, "How is the weather?")
    expect(page.get_by_role("alert")).to_contain_text("not valid JSON")
    page.get_by_label("Tools, as JSON").fill('[{"type": "function", "function": {"name": "weather"}}]')
    send(page, "How is the weather?")
    expect(page.locator(".chat-thinking summary")).to_contain_text("Thought for")
    assert page.locator(".chat-thinking em").is_hidden()
    page.locator(".chat-thinking summary").click()
    expect(page.locator(".chat-thinking em")).to_have_text("that")
    expect(page.locator(".chat-call pre")).to_contain_text('"city": "Ulm"')
    assert violations(page) == []
    gateway.stream = says(said("Sunny."), said("", "stop"))
    page.get_by_label("Result of weather").fill("sun")
    page.get_by_role("button", name="Send the result").click()
    expect(page.locator(".chat-answer").last).to_have_text("Sunny.")
    asked = gateway.asked[-1]
    assert asked["tools"][0]["function"]["name"] == "weather"
    assert [each["role"] for each in asked["messages"]] == ["user", "assistant", "tool"]
    assert asked["messages"][1]["tool_calls"][0]["function"] == {
        "name": "weather",
        "arguments": '{"city": "Ulm"}',
    }
    assert asked["messages"][2] == {"role": "tool", "tool_call_id": "call_1", "content": "sun"}


def test_escape_stops_an_answer_and_lets_the_gateway_go(page: Page, gateway: GatewayDouble) -> None:
    async def endless(gateway: GatewayDouble) -> AsyncIterator[bytes]:
        yield chunk(waiting={"index": 0, "for": "turn"})
        yield chunk(group=GROUP)
        yield said("One, ")
        await gateway.until_go()

    gateway.stream = endless
    field = page.get_by_label("Message to large")
    field.fill("Count")
    field.press("Shift+Enter")
    field.press_sequentially("slowly")
    field.press("Enter")
    expect(page.locator(".chat-answer")).to_have_text("One,")
    expect(page.locator(".chat-person .chat-plain")).to_have_text("Count\nslowly")
    expect(page.get_by_role("log")).to_have_attribute("aria-live", "polite")
    page.keyboard.press("Escape")
    expect(page.locator(".chat-told")).to_contain_text("stopped")
    assert gateway.left.wait(10)
    gateway.stream = says(said("Two"), said("", "stop"))
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".chat-answer")).to_have_text("Two")
    page.get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("log")).to_contain_text("Say something to large")


def test_a_long_prompt_says_how_much_of_it_has_been_read(page: Page, gateway: GatewayDouble) -> None:
    async def reads(gateway: GatewayDouble) -> AsyncIterator[bytes]:
        yield chunk(group=GROUP)
        yield chunk(reading={"index": 0, "done": 2048, "total": 5000})
        await gateway.until_go()
        for part in (said("Long."), said("", "stop"), END):
            yield part

    gateway.stream = reads
    send(page, "Read this")
    expect(page.locator(".chat-pause")).to_contain_text("Reading the prompt: 2,048 of 5,000 tokens")
    gateway.go.set()
    expect(page.locator(".chat-answer")).to_have_text("Long.")
    expect(page.locator(".chat-pause")).to_be_hidden()


def test_what_goes_wrong_is_said_and_can_be_tried_again(page: Page, gateway: GatewayDouble) -> None:
    gateway.stream = says(said("Half"), chunk(error={"message": "the group that worked on it was lost"}))
    send(page, "Hello")
    expect(page.locator(".chat-problem")).to_have_text("the group that worked on it was lost")
    expect(page.locator(".chat-answer")).to_have_text("Half")
    assert violations(page) == []
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_without_scripts_a_form_is_answered_with_a_page(
    browser: Browser, both: tuple[GatewayDouble, str], gateway: GatewayDouble
) -> None:
    gateway.reply = whole(HOSTILE, reasoning_content="Let me see.")
    with opened(browser, both[1], "/chat/large", java_script_enabled=False) as page:
        for text in ("Hello", "Really?"):
            page.get_by_label("Message to large").fill(text)
            page.get_by_role("button", name="Send").click()
            expect(page.locator(".chat-person .chat-plain").last).to_have_text(text)
        expect(page.locator(".chat-model > .chat-plain").last).to_have_text(HOSTILE)
        expect(page.locator(".chat-facts").last).to_have_text("Answered by epoch 7 on studio-1..4")
    assert len(gateway.asked[-1]["messages"]) == 3
