"""The lake as a Dagster resource: where the Delta tables are."""

from dagster import ConfigurableResource
from pydantic import Field

from eos_assets.platform.settings import Settings


class LakeResource(ConfigurableResource):  # type: ignore[type-arg]
    """A folder, or any address that Spark can write to."""

    path: str = Field(default="", description="A folder or address; default: EOS_LAKE, else lake in EOS_HOME.")

    def address(self) -> str:
        return self.path or Settings.load().lake
