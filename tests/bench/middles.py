"""The ways between a client and a backend: ours, and what people would put there instead, each a process of its own."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.wire.generation import Backend, Machine, Route, Routes
from reconciler.wire.keys import RANDOM_BYTES, AccessKey, KeyLimits, SecretHash, hash_of, secret_of
from tests.gateway.conftest import write_routes
from tests.gateway.rank_double import eventually
from tests.ports import free_port
from tests.processes import descendants

from .backend import MODEL

LITELLM = Path(__file__).parents[2] / ".venv-litellm" / "bin" / "litellm"
"""``make bench-peers`` installs it."""
SECRET = secret_of(bytes(RANDOM_BYTES))
_MANY = 10**9
KEY = AccessKey("bench", (SecretHash(hash_of(SECRET)),), limits=KeyLimits(_MANY, _MANY, _MANY, _MANY))
"""With every limit, none of which is met."""
_NGINX = """
daemon off; master_process off; worker_processes 1; pid {home}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  upstream model {{ server 127.0.0.1:{backend}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""
_LITELLM = """
model_list:
  - model_name: {model}
    litellm_params: {{model: openai/{model}, api_base: "http://127.0.0.1:{backend}/v1", api_key: none}}
"""


@dataclass
class Middle:
    """One way to the backend, and the processes in its middle."""

    name: str
    url: str
    pid: int
    key: str = ""
    """The secret with which it is asked."""

    @functools.cached_property
    def pids(self) -> list[int]:
        return descendants(self.pid)


@asynccontextmanager
async def gateway(
    home: Path, socket: Path, epoch: int = 1, machine: Machine | None = None, keys: bool = False
) -> AsyncIterator[Middle]:
    """A gateway process with one rank behind it, on this machine or on another. ``keys``: whether it asks for one."""
    listen = f"127.0.0.1:{free_port()}"
    backend = Backend(0, epoch, str(socket), "node-a", machine)
    routes = Routes(1, 1, listen, 20.0, (Route(MODEL, (), 4096, 1_700_000_000, (backend,)),))
    write_routes(home, replace(routes, auth="keys", keys=(KEY,)) if keys else routes)
    command = [sys.executable, "-m", "reconciler", "--home", str(home), "gateway"]
    with _process(command) as process:
        await eventually(lambda: (home / "gateway.json").exists())
        yield Middle("gateway", f"http://{listen}/v1", process.pid, SECRET if keys else "")


@asynccontextmanager
async def peers(home: Path, backend: int, all_of_them: bool) -> AsyncIterator[list[Middle]]:
    """The relay first, then what is installed of the others."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(_program("relay", "tests.bench.peers.relay", backend))]
        if all_of_them:
            made.append(
                await stack.enter_async_context(
                    _program("Starlette + aiohttp", "tests.bench.peers.starlette_proxy", backend)
                )
            )
            for make in (_nginx, _litellm):
                made += await stack.enter_async_context(make(home, backend))
        yield made


@asynccontextmanager
async def _program(name: str, module: str, backend: int) -> AsyncIterator[Middle]:
    port = free_port()
    with _process([sys.executable, "-m", module, str(port), str(backend)]) as process:
        await _listening(port)
        yield Middle(name, f"http://127.0.0.1:{port}/v1", process.pid)


@asynccontextmanager
async def _nginx(home: Path, backend: int) -> AsyncIterator[list[Middle]]:
    """Debian's, which is installed where ``PATH`` of users does not look."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        print("nginx is not installed: left out", file=sys.stderr)
        yield []
        return
    port = free_port()
    config = home / "nginx.conf"
    config.write_text(_NGINX.format(home=home, port=port, backend=backend))
    with _process([program, "-p", str(home), "-c", str(config)]) as process:
        await _listening(port)
        yield [Middle("nginx", f"http://127.0.0.1:{port}/v1", process.pid)]


@asynccontextmanager
async def _litellm(home: Path, backend: int) -> AsyncIterator[list[Middle]]:
    if not LITELLM.exists():
        print("LiteLLM is not installed (make bench-peers): left out", file=sys.stderr)
        yield []
        return
    port = free_port()
    config = home / "litellm.yaml"
    config.write_text(_LITELLM.format(model=MODEL, backend=backend))
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with _process(command, {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}) as process:
        await _listening(port)
        yield [Middle("LiteLLM", f"http://127.0.0.1:{port}/v1", process.pid)]


async def _listening(port: int) -> None:
    """Wait until somebody listens there, for at most a minute."""
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise TimeoutError(f"nobody listens on {port}")


@contextmanager
def _process(command: list[str], more: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block. ``more`` are variables of its environment."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env={**os.environ, **more}, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
