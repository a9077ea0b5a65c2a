"""MLX's own words, verbatim, and what a rank makes of them."""

from __future__ import annotations

import errno

import pytest

from reconciler.runner.model.mlx_errors import meaning
from reconciler.wire.launch import ExitCode

METAL = "[METAL] Command buffer execution failed: Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)."
NO_MEMORY = "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)."
NO_GID = (
    "[jaccl] No IPv4-mapped GID for this device. Thunderbolt RDMA ports only publish one once the interface has"
    " an IPv4 address; assign a link-local address to it"
)

WORDS = {
    METAL: ExitCode.GPU,
    NO_MEMORY: ExitCode.MEMORY,
    "[metal::malloc] Unable to allocate 68719476736 bytes.": ExitCode.MEMORY,
    "[metal::malloc] Resource limit (499000) exceeded.": ExitCode.MEMORY,
    "[metal::malloc] Attempting to allocate 99 bytes which is greater than the maximum allowed buffer size of 9 bytes.": ExitCode.MEMORY,
    "[metal::load_device] No Metal device available. This typically occurs in headless": ExitCode.GPU,
    "[ring] Send only supported to direct neighbors but tried to send to 3 from 1": ExitCode.WEIGHTS,
    "[jaccl] In ring mode send is only supported to direct neighbors but tried to send to 3 from 1": ExitCode.WEIGHTS,
    "[jaccl] The configuration should define a valid mesh or a valid ring.": ExitCode.VERBS,
    "[jaccl] Couldn't allocate protection domain": ExitCode.KERNEL_OBJECTS,
    "[jaccl] Creating the queue pair failed with 'Resource busy (16)'.": ExitCode.KERNEL_OBJECTS,
    "[jaccl] Changing queue pair to RTR failed with errno 96": ExitCode.GID,
    "[jaccl] Changing queue pair to RTR failed with errno 16": ExitCode.KERNEL_OBJECTS,
    "[jaccl] Changing queue pair to RTR failed with errno 60": ExitCode.GID_UNREACHED,
    "[jaccl] Changing queue pair to RTR failed with errno 22": ExitCode.GID,
    "[jaccl] Creating the queue pair failed with 'Operation not supported (102)'.": ExitCode.VERBS,
    "[jaccl] Could not find device rdma_en3 (0 available)": ExitCode.VERBS,
    "[jaccl] Recv failed with error code -12": ExitCode.VERBS,
    NO_GID: ExitCode.GID,
    "[jaccl] Recv failed with errno=60": ExitCode.PEER_LOST,
    "[ring] The connection to a peer was lost": ExitCode.PEER_LOST,
    "[jaccl] Couldn't connect (error: 65)": ExitCode.NO_ROUTE,
    f"[ring] Couldn't connect (error: {errno.EHOSTUNREACH})": ExitCode.NO_ROUTE,
    "[jaccl] Couldn't connect (error: 60)": ExitCode.RENDEZVOUS,
    "[jaccl] Couldn't connect (error: 61)": ExitCode.RENDEZVOUS,
    "[jaccl] Couldn't bind socket (error: 49)": ExitCode.RENDEZVOUS,
    f"[ring] Couldn't bind socket (error: {errno.EADDRINUSE})": ExitCode.PORT_IN_USE,
    "[jaccl] Accept failed (error: 4)": ExitCode.RENDEZVOUS,
    "Cannot initialize jaccl distributed backend.": ExitCode.NO_BACKEND,
    "[distributed] Couldn't initialize any backend": ExitCode.NO_BACKEND,
    "[matmul] Last dimension of first input must match": None,
}


@pytest.mark.parametrize("text", WORDS)
def test_an_error_of_mlx_ends_the_rank_with_the_status_of_its_class(text: str) -> None:
    assert meaning(text) == WORDS[text]


STEPS = {
    "[jaccl] Creating the queue pair failed with 'x ({})'.": {12, 16, 96},
    "[jaccl] Changing queue pair to INIT failed with errno {}": {12, 16, 96},
    "[jaccl] Changing queue pair to RTR failed with errno {}": {12, 16},
    "[jaccl] Changing queue pair to RTS failed with errno {}": {12, 16},
}
"""By step of ``rdma.cpp`` that prints an errno: those of a driver that has no objects left."""
ERRNOS = range(1, 107)
"""All of macOS."""


@pytest.mark.parametrize("step", STEPS)
def test_every_errno_of_a_step_of_rdma_has_the_class_of_what_the_step_needs(step: str) -> None:
    connects = "RTR" in step or "RTS" in step
    for number in ERRNOS:
        of_gids = {22: ExitCode.GID, 96: ExitCode.GID, 60: ExitCode.GID_UNREACHED} if connects else {}
        other = of_gids.get(number, ExitCode.VERBS)
        expected = ExitCode.KERNEL_OBJECTS if number in STEPS[step] else other
        assert meaning(step.format(number)) == expected, number
