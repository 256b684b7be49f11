"""A secured broker with one pipeline, and a user who has exactly the permissions that the pipeline needs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from eos_assets.declare.pipeline import pipeline
from eos_assets.declare.topic import Topic
from eos_assets.experiment.fill import fill
from eos_assets.kafka.admin import create_topics
from eos_assets.kafka.connection import Connection
from eos_assets.local.broker import KafkaCluster, Node
from eos_assets.local.ports import ReservedPort
from eos_assets.platform.loopback import LOOPBACK
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.permissions import Permission, permissions
from eos_assets_tests.run.lab import squared
from eos_assets_tests.waiting import wait_for

USER = "squares"
CANARY = 'kanarienvogel-4711-"quoted"\\and-slashed'

PIPELINE = pipeline(name="secured", source=Topic("secured-source"), sink=Topic("secured-sink"))(squared)

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Create": AclOperation.CREATE,
    "Alter": AclOperation.ALTER,
}


@dataclass
class Guarded:
    """The cluster, and its connections as administrator and as user."""

    cluster: KafkaCluster
    admin: Connection
    user: Connection
    #: The listener for clients with a certificate.
    certificate_listener: str

    def allow(self, permission: Permission, principal: str = f"User:{USER}") -> None:
        self.admin.admin.create_acls([AclBinding(*self.key(permission, principal))])
        wait_for(lambda: self.allowed(permission))

    def forbid(self, permission: Permission) -> None:
        self.admin.admin.delete_acls([AclBindingFilter(*self.key(permission))])
        wait_for(lambda: not self.allowed(permission))

    def allowed(self, permission: Permission) -> bool:
        return bool(self.admin.admin.describe_acls(AclBindingFilter(*self.key(permission))).result())

    def key(self, permission: Permission, principal: str = f"User:{USER}") -> tuple[Any, ...]:
        pattern = ResourcePatternType.PREFIXED if permission.prefixed else ResourcePatternType.LITERAL
        kind, operation = RESOURCES[permission.kind], OPERATIONS[permission.operation]
        return kind, permission.name, pattern, principal, "*", operation, AclPermissionType.ALLOW


def add_user(admin: Connection, name: str, password: str) -> Connection:
    """Create a user with SCRAM credentials, which are sent and stored salted."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(name, info, password.encode())
    for future in admin.admin.alter_user_scram_credentials([change]).values():
        future.result()
    return replace(admin, security=replace(admin.security, username=name, password=password))


@pytest.fixture(scope="package")
def guarded(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    cluster = KafkaCluster(tmp_path_factory.mktemp("secured"), settings=settings, secured=True)
    port = ReservedPort()
    cluster.overrides = with_certificates(cluster.nodes[0], port.number)
    with cluster:
        admin = cluster.connection
        create_topics([PIPELINE.source, *PIPELINE.own_topics()], admin)
        fill(admin, PIPELINE.source.name, 90)
        guarded = Guarded(cluster, admin, add_user(admin, USER, CANARY), f"{LOOPBACK}:{port.number}")
        for permission in permissions(PIPELINE):
            guarded.allow(permission)
        yield guarded
    port.release()


def with_certificates(node: Node, port: int) -> dict[str, str]:
    """One more listener, for clients that authenticate with a certificate."""
    return {
        "listeners": f"CLIENT://{node.address},CERTIFICATE://{LOOPBACK}:{port},"
        f"CONTROLLER://{LOOPBACK}:{node.controller_port}",
        "advertised.listeners": f"CLIENT://{node.address},CERTIFICATE://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "CLIENT:SASL_SSL,CERTIFICATE:SSL,CONTROLLER:SSL",
        "listener.name.certificate.ssl.client.auth": "required",
    }
