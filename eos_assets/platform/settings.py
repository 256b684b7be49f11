"""The settings of this process: every environment variable with its type, default and meaning, defined once."""

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from eos_assets.deadlines import BROKER_WAIT_SECONDS
from eos_assets.errors import EosError
from eos_assets.files.access import Access
from eos_assets.files.limits import Limits
from eos_assets.platform import setting_consistency
from eos_assets.platform.project import declared_modules, project_root
from eos_assets.platform.setting_types import (
    CONNECT_PORT,
    PREFIX,
    SPARK_ADDRESSES,
    AlertChannel,
    Brokers,
    CodeFiles,
    DefaultText,
    Folder,
    Hosts,
    LakeAddress,
    Limit,
    Mechanism,
    Modules,
    Port,
    Profile,
    Protocol,
    ReadableFile,
    SparkAddress,
    SparkVersion,
    Stores,
    Url,
    suggest,
    variable_of,
)


class Settings(BaseSettings):
    """The settings; `load` is the only reader of the environment. No secret is in a repr."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, validate_default=False, hide_input_in_errors=True)

    profile: Profile = Field(
        "dev",
        description="dev: one broker is enough. test: as dev, and sensors stay off. production: 3 replicas, min ISR 2 "
        "and no unclean election, whatever a pipeline declares",
    )
    home: Annotated[Folder, DefaultText(".eos in the project")] = Field(
        default_factory=lambda: project_root(Path.cwd()).absolute() / ".eos",
        description="folder for jars, server data, logs and state",
    )
    lake: Annotated[LakeAddress, DefaultText("lake in EOS_HOME")] = Field(
        default_factory=lambda data: str(data["home"] / "lake"),
        description="folder or address of the Delta tables; a cluster must reach it, too",
    )
    modules: Annotated[Modules, DefaultText("[tool.eos] in pyproject.toml")] = Field(
        (), description="modules and packages that declare pipelines, comma separated; added to those of pyproject.toml"
    )
    bootstrap_servers: Annotated[Brokers | None, DefaultText("those of `eos up`")] = Field(
        None, description="the Kafka cluster to use, host:port,…"
    )
    kafka_security_protocol: Protocol = Field("PLAINTEXT", description="the protocol of the brokers' listeners")
    kafka_sasl_mechanism: Annotated[Mechanism | None, DefaultText("SCRAM-SHA-512")] = Field(
        None, description="how to log in, with a SASL_ protocol"
    )
    kafka_username: str | None = Field(None, description="the user to log in as, with a SASL_ protocol")
    kafka_password: SecretStr | None = Field(None, description="the password of that user")
    kafka_oauth_token_url: Url | None = Field(
        None, description="the token endpoint of the identity provider, with the mechanism OAUTHBEARER"
    )
    kafka_oauth_client_id: str | None = Field(None, description="the client to get a token for, with OAUTHBEARER")
    kafka_oauth_client_secret: SecretStr | None = Field(None, description="the secret of that client")
    kafka_oauth_scope: str | None = Field(None, description="the scope to ask for, where the provider requires one")
    kafka_ca_file: Annotated[ReadableFile | None, DefaultText("the system's")] = Field(
        None, description="PEM file of the authority that signed the brokers' certificates"
    )
    kafka_certificate_file: ReadableFile | None = Field(
        None, description="PEM file of the client's certificate chain, where brokers require one"
    )
    kafka_key_file: ReadableFile | None = Field(None, description="PEM file (PKCS#8) of the key of that certificate")
    kafka_key_password: SecretStr | None = Field(None, description="the password of that key")
    spark: Annotated[SparkAddress | None, DefaultText("`eos up`, else in-process")] = Field(
        None,
        description="where Spark runs; connect is the server of `eos up`",
        examples=list(SPARK_ADDRESSES),
        repr=False,  # an address of Spark Connect may hold a token
    )
    spark_python: Annotated[str | None, DefaultText("this Python")] = Field(
        None, description="the Python of the executors of a cluster, as a path there"
    )
    accept_spark: SparkVersion | None = Field(
        None, description="a Spark version, such as 4.3, to accept although it is not one of the tested ones"
    )
    py_files: CodeFiles = Field((), description="more .py, .zip or .whl files for the executors, comma separated")
    jars_dir: Annotated[Folder, DefaultText("jars in EOS_HOME")] = Field(
        default_factory=lambda data: data["home"] / "jars", description="folder of the jars"
    )
    ivy_settings: Annotated[ReadableFile | None, DefaultText("Ivy's own")] = Field(
        None, description="an Ivy settings file for a mirror or proxy"
    )
    dagster_port: Annotated[Port, DefaultText("the last one, at first 3000")] = Field(
        3000, description="port of the Dagster webserver that `eos up` starts"
    )
    kafka_port: Annotated[Port, DefaultText("the last one, at first 9092")] = Field(
        9092, description="first port of the brokers that `eos up` starts; each broker takes two"
    )
    kafka_wait_seconds: Limit = Field(
        BROKER_WAIT_SECONDS, description="how long a run keeps trying while no broker answers, in seconds"
    )
    spark_connect_port: Annotated[Port, DefaultText(f"the last one, at first {CONNECT_PORT}")] = Field(
        CONNECT_PORT, description="port of the Spark Connect server that `eos up` starts"
    )
    exporter_port: Annotated[Port, DefaultText("the last one, at first 9464")] = Field(
        9464, description="port of the exporter of metrics, also of the one that `eos up` starts"
    )
    files_root: Folder | None = Field(
        None, description="folder below which `file:` references may lead; without it none is followed"
    )
    files_hosts: Hosts = Field(
        (), description="hosts that http(s) references may name: host, host:port, host:* or networks"
    )
    files_stores: Stores = Field(
        (), description="beginnings of other addresses to fetch through fsspec, such as s3://bucket/in/"
    )
    files_max_bytes: Annotated[Limit, DefaultText("4 GiB")] = Field(
        Limits.max_bytes, description="the largest file that is fetched"
    )
    files_max_unpacked_bytes: Annotated[Limit, DefaultText("16 GiB")] = Field(
        Limits.max_unpacked_bytes, description="the largest file after unpacking"
    )
    files_max_ratio: Limit = Field(Limits.max_ratio, description="how many times larger a file may become by unpacking")
    files_max_seconds: Limit = Field(
        int(Limits.max_seconds), description="how long fetching and reading one file may take, in seconds"
    )
    alerts: AlertChannel | None = Field(
        None,
        description="where alerts of failed runs and checks are sent: module:function, or the URL of a webhook",
    )
    stack: str | None = Field(
        None, description="set by `eos up` in the servers it starts, so that `eos down` finds exactly them"
    )

    @property
    def files(self) -> Access:
        """From where files may come, and their limits."""
        limits = Limits(
            max_bytes=self.files_max_bytes,
            max_unpacked_bytes=self.files_max_unpacked_bytes,
            max_ratio=self.files_max_ratio,
            max_seconds=float(self.files_max_seconds),
        )
        return Access(root=self.files_root, hosts=self.files_hosts, stores=self.files_stores, limits=limits)

    @staticmethod
    def load(environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from an environment and, where pipelines are, from pyproject.toml, too. An empty variable
        counts as unset."""
        refuse_unknown(environ)
        source = EnvSettingsSource(Settings)  # reads os.environ itself, so its variables are replaced
        source.env_vars = {name.lower(): environ[name] for name in VARIABLES if environ.get(name)}
        values = source()
        values["modules"] = ",".join([values.get("modules", ""), *declared_modules(project_root(Path.cwd()))])
        try:
            return Settings(**values)
        except ValidationError as error:
            raise invalid_choice(error) from None

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Nothing but what `load` passes: its environment may be another one than this process's."""
        return (init_settings,)

    @model_validator(mode="after")
    def check_consistency(self) -> Self:
        setting_consistency.check(self)
        return self


PROTOCOLS: tuple[str, ...] = get_args(Protocol)
MECHANISMS: tuple[str, ...] = get_args(Mechanism)


@dataclass(frozen=True)
class Setting:
    """One environment variable, as `eos settings` and docs/configuration.md show it."""

    name: str
    default: str
    meaning: str
    choices: tuple[str, ...]
    secret: bool


def describe(name: str, field: FieldInfo) -> Setting:
    text = next((item.text for item in field.metadata if isinstance(item, DefaultText)), None)
    plain = "none" if field.default in (None, ()) else str(field.default)
    secret = SecretStr in types_in(field.annotation)
    return Setting(variable_of(name), text or plain, field.description or "", choices_of(field), secret)


def types_in(annotation: object) -> Iterator[object]:
    """A type and the types that it is made of."""
    yield annotation
    for argument in get_args(annotation):
        yield from types_in(argument)


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """The values that a setting may have, where that is a short list."""
    for candidate in (field.annotation, *get_args(field.annotation)):
        if get_origin(candidate) is Literal:
            return get_args(candidate)
    return tuple(field.examples or ())


SETTINGS = tuple(describe(name, field) for name, field in Settings.model_fields.items())
VARIABLES = tuple(setting.name for setting in SETTINGS)


def refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(PREFIX) and name not in VARIABLES:
            near = difflib.get_close_matches(name, VARIABLES, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise EosError(
                f"The environment variable {name} is not a setting of eos_assets.",
                f"{hint}`eos settings` lists all of them; unset {name}.",
            )


def invalid_choice(error: ValidationError) -> EosError:
    """The error for a value that is not one of the choices: the types of all other settings raise their own."""
    details = error.errors()[0]
    field = str(details["loc"][0])
    *others, last = choices_of(Settings.model_fields[field])
    return EosError(
        f"{variable_of(field)}={details['input']} is not valid.",
        f"{suggest(str(details['input']), [*others, last])}Use {', '.join(others)} or {last}.",
    )


def markdown_table() -> str:
    """The table of docs/configuration.md."""
    lines = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for setting in SETTINGS:
        meaning = setting.meaning
        if setting.choices:
            meaning += ": " + ", ".join(f"`{choice}`" for choice in setting.choices)
        if setting.secret:
            meaning += "; a secret"
        lines.append(f"| `{setting.name}` | {setting.default} | {meaning} |")
    return "\n".join(lines) + "\n"
