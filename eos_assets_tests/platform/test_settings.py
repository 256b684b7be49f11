"""Settings: documented from their definition, refused by name with the nearest valid one, secrets never printed."""

import re
from pathlib import Path

import dagster as dg
import pytest

from eos_assets.errors import EosError
from eos_assets.orchestration.resources.kafka import KafkaResource
from eos_assets.orchestration.sensors.runs import default_status
from eos_assets.platform.cluster import connect, credentials
from eos_assets.platform.project import project_root
from eos_assets.platform.settings import SETTINGS, Settings, markdown_table
from eos_assets.platform.spark_session import spark_address
from eos_assets_tests.cli.command import eos

ROOT = project_root(Path(__file__).parent)
LOGIN = {
    "EOS_BOOTSTRAP_SERVERS": "kafka:9093",
    "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "EOS_KAFKA_USERNAME": "squares",
    "EOS_KAFKA_PASSWORD": 'kanarienvogel"4711',
}
OAUTH = {
    "EOS_BOOTSTRAP_SERVERS": "kafka:9093",
    "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "EOS_KAFKA_SASL_MECHANISM": "OAUTHBEARER",
    "EOS_KAFKA_OAUTH_TOKEN_URL": "https://login.example.com/token",
    "EOS_KAFKA_OAUTH_CLIENT_ID": "squares",
    "EOS_KAFKA_OAUTH_CLIENT_SECRET": 'kanarienvogel"4711',
    "EOS_KAFKA_OAUTH_SCOPE": "records",
}


def test_the_documented_table_is_the_table() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    documented = re.search(r"<!-- settings -->\n(.*)<!-- /settings -->", text, re.DOTALL)
    assert documented
    assert documented.group(1) == markdown_table(), "write it again with `eos settings --markdown`"


def test_every_setting_is_a_field_with_a_meaning() -> None:
    assert {setting.name.removeprefix("EOS_").lower() for setting in SETTINGS} == set(Settings.model_fields)
    assert [setting.name for setting in SETTINGS if not setting.meaning] == []


def test_a_default_follows_the_home_that_is_set() -> None:
    settings = Settings.load({"EOS_HOME": "/srv/eos", "EOS_KAFKA_PORT": ""})
    assert (settings.lake, settings.jars_dir, settings.kafka_port) == ("/srv/eos/lake", Path("/srv/eos/jars"), 9092)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("EOS_PROFIL", "dev", "Did you mean EOS_PROFILE?"),
        ("EOS_KAFKA_PASSWROD", "x", "Did you mean EOS_KAFKA_PASSWORD?"),
        ("EOS_PROFILE", "prodution", "Did you mean production?"),
        ("EOS_KAFKA_SECURITY_PROTOCOL", "sasl-ssl", "Did you mean SASL_SSL?"),
        ("EOS_KAFKA_SASL_MECHANISM", "scram_sha_512", "Did you mean SCRAM-SHA-512?"),
        ("EOS_BOOTSTRAP_SERVERS", "kafka", "EOS_BOOTSTRAP_SERVERS=kafka is not a list of brokers"),
        ("EOS_BOOTSTRAP_SERVERS", "a:1,b", "'b'"),
        ("EOS_SPARK", "in_proces", "Did you mean in-process?"),
        ("EOS_KAFKA_CA_FILE", "/no/such/file", "EOS_KAFKA_CA_FILE=/no/such/file is not a readable file"),
        ("EOS_ACCEPT_SPARK", "yes", "EOS_ACCEPT_SPARK=yes is not a version"),
        ("EOS_PY_FILES", "pyproject.toml", "is not Python code"),
        ("EOS_MODULES", "mine,src/mine.py", "EOS_MODULES: src/mine.py is not the name of a module"),
        ("EOS_IVY_SETTINGS", "/no/such/file", "EOS_IVY_SETTINGS=/no/such/file is not a readable file"),
        ("EOS_BOOTSTRAP_SERVERS", "kafka:70000", "is not a list of brokers: 'kafka:70000'"),
        ("EOS_SPARK", "spark://host", "EOS_SPARK=spark://host is not an address of Spark"),
        ("EOS_SPARK", "spark://a:7077,b", "Did you mean spark://host:port?"),
        ("EOS_SPARK", "sc://host:70000", "EOS_SPARK=sc://host:70000 is not an address of Spark"),
        ("EOS_SPARK", "local[x]", "Did you mean local[*,4]?"),
        ("EOS_LAKE", "s3a:/bucket", "Did you mean s3a://bucket?"),
        ("EOS_LAKE", "s3a:bucket", "Did you mean s3a://bucket?"),
        ("EOS_KAFKA_SECURITY_PROTOCOL", "SASL_SSL", "needs EOS_KAFKA_USERNAME"),
        ("EOS_KAFKA_OAUTH_TOKEN_URL", "login.example.com", "EOS_KAFKA_OAUTH_TOKEN_URL is not an http(s) address"),
        ("EOS_KAFKA_OAUTH_TOKEN_URL", "file:///token", "EOS_KAFKA_OAUTH_TOKEN_URL is not an http(s) address"),
        ("EOS_DAGSTER_PORT", "70000", "EOS_DAGSTER_PORT=70000 is not a port"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(name: str, value: str, message: str) -> None:
    with pytest.raises(EosError, match=re.escape(message)) as error:
        Settings.load({name: value})
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"EOS_KAFKA_PASSWORD": ""}, "needs EOS_KAFKA_PASSWORD"),
        ({"EOS_KAFKA_USERNAME": ""}, "needs EOS_KAFKA_USERNAME"),
        ({"EOS_KAFKA_SECURITY_PROTOCOL": ""}, "EOS_KAFKA_USERNAME is set, but"),
        ({"EOS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "EOS_KAFKA_CA_FILE": "LICENSE"}, "EOS_KAFKA_CA_FILE is set"),
        ({"EOS_KAFKA_CA_FILE": "LICENSE"}, "does not hold a certificate in PEM form"),
        ({"EOS_KAFKA_KEY_FILE": "LICENSE"}, "Only one of"),
        ({"EOS_SPARK": "sc://host:15002", "EOS_SPARK_PYTHON": "/opt/python"}, "EOS_SPARK_PYTHON is set, but"),
        (
            {
                "EOS_PROFILE": "production",
                "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                "EOS_KAFKA_SASL_MECHANISM": "PLAIN",
            },
            "sends the password in clear",
        ),
    ],
)
def test_inconsistent_settings_are_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(EosError, match=message) as error:
        connect(Settings.load({**LOGIN, **changes}))
    assert "kanarienvogel" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"EOS_KAFKA_OAUTH_TOKEN_URL": ""}, "EOS_KAFKA_SASL_MECHANISM=OAUTHBEARER needs EOS_KAFKA_OAUTH_TOKEN_URL"),
        ({"EOS_KAFKA_OAUTH_CLIENT_ID": ""}, "needs EOS_KAFKA_OAUTH_CLIENT_ID"),
        ({"EOS_KAFKA_OAUTH_CLIENT_SECRET": ""}, "needs EOS_KAFKA_OAUTH_CLIENT_SECRET"),
        ({"EOS_KAFKA_USERNAME": "squares"}, "EOS_KAFKA_USERNAME is set, but EOS_KAFKA_SASL_MECHANISM=OAUTHBEARER does"),
        ({**LOGIN, "EOS_KAFKA_SASL_MECHANISM": ""}, "EOS_KAFKA_OAUTH_TOKEN_URL is set, but"),
        ({"EOS_KAFKA_SECURITY_PROTOCOL": "SSL"}, "EOS_KAFKA_SASL_MECHANISM is set, but"),
        (
            {"EOS_PROFILE": "production", "EOS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"},
            "sends the token in clear",
        ),
        (
            {"EOS_PROFILE": "production", "EOS_KAFKA_OAUTH_TOKEN_URL": "http://login.example.com/token"},
            "sends the secret of the client in clear",
        ),
    ],
)
def test_inconsistent_settings_of_tokens_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(EosError, match=message) as error:
        Settings.load({**OAUTH, **changes})
    assert "kanarienvogel" not in str(error.value)


def test_the_secret_of_a_client_is_in_no_repr_and_in_both_clients() -> None:
    settings = Settings.load(OAUTH)
    connection = connect(settings)
    for thing in (settings, connection, connection.security, connection.security.client_credentials):
        assert "kanarienvogel" not in repr(thing)
        assert "kanarienvogel" not in str(thing)
    assert connection.security.principal == "User:squares"
    config = connection.config()
    assert {name: value for name, value in config.items() if name.startswith(("sasl", "security"))} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
        "sasl.oauthbearer.client.id": "squares",
        "sasl.oauthbearer.client.secret": 'kanarienvogel"4711',
        "sasl.oauthbearer.scope": "records",
    }
    callback = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert connection.security.java() == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="squares" clientSecret="kanarienvogel\\"4711" scope="records";',
        "kafka.sasl.login.callback.handler.class": callback,
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://login.example.com/token",
    }


def test_a_resource_takes_the_credentials_of_a_client() -> None:
    given = {"bootstrap_servers": "kafka:9093", "security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    with pytest.raises(EosError, match="needs token_url"):
        KafkaResource(**given).connection()
    resource = KafkaResource(
        **given, token_url="https://login.example.com/token", client_id="squares", client_secret="kanarienvogel"
    )
    assert resource.connection().config()["sasl.oauthbearer.client.secret"] == "kanarienvogel"
    assert "kanarienvogel" not in repr(resource) + repr(resource.connection())


@pytest.mark.parametrize(
    "address",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[*,4]",
        "spark://a:7077",
        "spark://a:7077,b:7077",
        "sc://a/;token=t",
        "yarn",
    ],
)
def test_every_address_of_spark_is_accepted_as_it_is(address: str) -> None:
    assert Settings.load({"EOS_SPARK": address}).spark == address


def test_no_error_shows_the_token_of_a_spark_address() -> None:
    wrong = "spak://host:443/;token=kanarienvogel;use_ssl=true"
    with pytest.raises(EosError, match="EOS_SPARK=spak") as error:
        Settings.load({"EOS_SPARK": wrong})
    assert "kanarienvogel" not in str(error.value)
    with pytest.raises(EosError, match="EOS_SPARK=spak") as error:
        spark_address(Settings.load({}), wrong)
    assert "kanarienvogel" not in str(error.value)


def test_a_password_is_in_no_repr_and_in_both_clients() -> None:
    settings = Settings.load(LOGIN)
    connection = connect(settings)
    resource = KafkaResource(bootstrap_servers="kafka:9093", security_protocol="SASL_SSL", password="kanarienvogel")
    for thing in (settings, connection, connection.security, resource, resource.connection()):
        assert "kanarienvogel" not in repr(thing)
        assert "kanarienvogel" not in str(thing)
    assert connection.config()["sasl.password"] == 'kanarienvogel"4711'
    assert 'password="kanarienvogel\\"4711";' in connection.security.java()["kafka.sasl.jaas.config"]


def test_settings_are_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    shown = eos("settings").stdout
    assert all(setting.name in shown for setting in SETTINGS)
    assert "kafka:9093" in shown
    assert "kanarienvogel" not in shown


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    files = {"CA": "CERTIFICATE", "CERTIFICATE": "CERTIFICATE", "KEY": "PRIVATE KEY"}
    environ = {"EOS_KAFKA_SECURITY_PROTOCOL": "SSL"}
    for name, kind in files.items():
        path = tmp_path / name
        path.write_text(f"-----BEGIN {kind}-----\n{name}\n-----END {kind}-----\n")
        environ[f"EOS_KAFKA_{name}_FILE"] = str(path)
    security = credentials(Settings.load(environ))
    assert "CA" in security.librdkafka()["ssl.ca.pem"]
    assert "KEY" in security.librdkafka()["ssl.key.pem"]
    assert security.java()["kafka.ssl.truststore.type"] == security.java()["kafka.ssl.keystore.type"] == "PEM"
    assert not any(str(tmp_path) in value for value in {**security.java(), **security.librdkafka()}.values())


def test_sensors_stay_off_in_the_profile_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EOS_PROFILE", raising=False)
    assert default_status() is dg.DefaultSensorStatus.RUNNING
    monkeypatch.setenv("EOS_PROFILE", "test")
    assert default_status() is dg.DefaultSensorStatus.STOPPED


def test_a_resource_takes_its_password_by_the_name_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "kanarienvogel")
    resource = KafkaResource(
        bootstrap_servers="kafka:9093",
        security_protocol="SASL_SSL",
        username="squares",
        password=dg.EnvVar("MY_PASSWORD"),
    )
    shown = str(dg.Definitions(resources={"kafka": resource}).resources) + repr(resource)
    assert "kanarienvogel" not in shown
    ready = resource.process_config_and_initialize()
    assert ready.connection().config()["sasl.password"] == "kanarienvogel"
    assert "kanarienvogel" not in repr(ready)
