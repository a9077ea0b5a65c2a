"""Names by which containers and virtual machines call the machine that they run on."""

CONTAINER_NAMES = (
    "docker.docker.internal",
    "docker.for.mac.gateway.internal",
    "docker.for.mac.host.internal",
    "docker.for.win.host.internal",
    "docker.orb.internal",
    "gateway.docker.internal",
    "host.container.internal",
    "host.containers.internal",
    "host.crc.testing",
    "host.docker.internal",
    "host.internal",
    "host.k3d.internal",
    "host.lima.internal",
    "host.minikube.internal",
    "host.orb.internal",
    "host.rancher-desktop.internal",
    "host.testcontainers.internal",
    "kubernetes.docker.internal",
    "vm.docker.internal",
)
