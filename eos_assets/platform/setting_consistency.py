"""Refuses settings that contradict each other, lack another one, or would be ignored without a message."""

from typing import TYPE_CHECKING

from eos_assets.errors import EosError
from eos_assets.platform.setting_types import hide_token, variable_of

if TYPE_CHECKING:
    from eos_assets.platform.settings import Settings

SASL_SETTINGS = ("kafka_sasl_mechanism", "kafka_username", "kafka_password")
TLS_SETTINGS = ("kafka_ca_file", "kafka_certificate_file", "kafka_key_file", "kafka_key_password")


def check(settings: "Settings") -> None:
    check_used_by_protocol(settings)
    check_login(settings)
    check_certificate(settings)
    check_spark_python(settings)


def check_used_by_protocol(settings: "Settings") -> None:
    """Refuse credentials that the security protocol does not use: they would be ignored."""
    protocol = settings.kafka_security_protocol
    sasl, encrypted = protocol.startswith("SASL_"), protocol.endswith("SSL")
    for used, fields, needed in ((sasl, SASL_SETTINGS, "SASL_SSL"), (encrypted, TLS_SETTINGS, "SASL_SSL or SSL")):
        unused = [variable_of(field) for field in fields if getattr(settings, field) and not used]
        if unused:
            raise EosError(
                f"{unused[0]} is set, but EOS_KAFKA_SECURITY_PROTOCOL={protocol} does not use it.",
                f"Set EOS_KAFKA_SECURITY_PROTOCOL to {needed}, or unset {unused[0]}.",
            )


def check_login(settings: "Settings") -> None:
    protocol = settings.kafka_security_protocol
    if not protocol.startswith("SASL_"):
        return
    for field in ("kafka_username", "kafka_password"):
        if not getattr(settings, field):
            name = variable_of(field)
            raise EosError(f"EOS_KAFKA_SECURITY_PROTOCOL={protocol} needs {name}.", f"Set {name}.")
    in_clear = protocol == "SASL_PLAINTEXT" and settings.kafka_sasl_mechanism == "PLAIN"
    if in_clear and settings.profile == "production":
        raise EosError(
            "EOS_KAFKA_SASL_MECHANISM=PLAIN over SASL_PLAINTEXT sends the password in clear.",
            "Set EOS_KAFKA_SECURITY_PROTOCOL to SASL_SSL, or the mechanism to SCRAM-SHA-512.",
        )


def check_certificate(settings: "Settings") -> None:
    if bool(settings.kafka_certificate_file) != bool(settings.kafka_key_file):
        raise EosError(
            "Only one of EOS_KAFKA_CERTIFICATE_FILE and EOS_KAFKA_KEY_FILE is set.", "Set both, or neither of them."
        )


def check_spark_python(settings: "Settings") -> None:
    """Refuse a Python for a Spark Connect server: that of its executors is chosen where the server is started."""
    if settings.spark_python and (settings.spark or "").startswith("sc://"):
        raise EosError(
            f"EOS_SPARK_PYTHON is set, but EOS_SPARK={hide_token(settings.spark or '')} does not use it.",
            "Set it where that server is started, and unset EOS_SPARK_PYTHON here.",
        )
