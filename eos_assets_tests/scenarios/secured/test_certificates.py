"""Clients that authenticate with a certificate: librdkafka and Spark's reader."""

import base64
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from eos_assets.errors import EosError
from eos_assets.kafka.offsets import OffsetRange, bounds
from eos_assets.kafka.open_transactions import find_open_transactions
from eos_assets.kafka.transaction_client import ask_transactions
from eos_assets.local.broker_security import ALIAS
from eos_assets.platform.cluster import connect
from eos_assets.platform.settings import Settings
from eos_assets.run.preflight.permissions import permissions
from eos_assets.transform.source import read_ranges
from eos_assets_tests.scenarios.secured.conftest import PIPELINE, Guarded


def pem(kind: str, *contents: bytes) -> str:
    blocks = [base64.encodebytes(content).decode() for content in contents]
    return "".join(f"-----BEGIN {kind}-----\n{block}-----END {kind}-----\n" for block in blocks)


def export(spark: SparkSession, store: Path, password: str) -> tuple[str, str]:
    """Certificate chain and key of a key store, as text: keytool does not export keys, but Java does."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java, secret = gateway.jvm.java, gateway.new_array(gateway.jvm.char, len(password))
    for index, character in enumerate(password):
        secret[index] = character
    keystore = java.security.KeyStore.getInstance("PKCS12")
    keystore.load(java.io.FileInputStream(str(store)), secret)
    chain = [bytes(certificate.getEncoded()) for certificate in keystore.getCertificateChain(ALIAS)]
    # The class of the key is not public, so the method is taken from its interface.
    classes, objects = (gateway.new_array(of, 0) for of in (java.lang.Class, java.lang.Object))
    encoded = java.lang.Class.forName("java.security.Key").getMethod("getEncoded", classes)
    return pem("CERTIFICATE", *chain), pem(
        "PRIVATE KEY", bytes(encoded.invoke(keystore.getKey(ALIAS, secret), objects))
    )


def test_a_certificate_is_enough_where_brokers_require_one(
    guarded: Guarded, spark: SparkSession, tmp_path: Path
) -> None:
    security = guarded.cluster.secured
    assert security is not None
    security.issue(tmp_path / "client.p12", "CN=reader")
    chain, key = export(spark, tmp_path / "client.p12", security.passwords()["keystore"])
    (tmp_path / "chain.pem").write_text(chain)
    (tmp_path / "key.pem").write_text(key)
    environ = {
        "EOS_BOOTSTRAP_SERVERS": guarded.certificate_listener,
        "EOS_KAFKA_SECURITY_PROTOCOL": "SSL",
        "EOS_KAFKA_CA_FILE": str(security.authority),
        "EOS_KAFKA_CERTIFICATE_FILE": str(tmp_path / "chain.pem"),
        "EOS_KAFKA_KEY_FILE": str(tmp_path / "key.pem"),
    }
    for permission in permissions(PIPELINE):
        if permission.name in (PIPELINE.source.name, "eos-reader"):
            guarded.allow(permission, "User:CN=reader")
    connection = connect(Settings.load(environ))
    assert find_open_transactions(connection, [PIPELINE.source.name]) == []
    assert ask_transactions(connection, lambda client: client.list_transactions())
    (tmp_path / "key.pem").unlink()  # it was read already: executors elsewhere have no such file
    ranges = [OffsetRange(p, b.start, b.stable) for p, b in bounds(connection, PIPELINE.source.name).items()]
    assert read_ranges(spark, connection, PIPELINE.source.name, ranges).count() >= 90
    del environ["EOS_KAFKA_CERTIFICATE_FILE"], environ["EOS_KAFKA_KEY_FILE"]
    with pytest.raises(EosError):
        connect(Settings.load(environ)).metadata(seconds=3)
