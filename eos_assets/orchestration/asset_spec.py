"""What all assets of a pipeline have in common: the options that it declares, and a link to its function."""

import inspect
import warnings
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import dagster as dg

from eos_assets.declare.code_version import plain_function
from eos_assets.declare.pipeline import Pipeline


def pipeline_asset_spec(
    pipeline: Pipeline,
    key: dg.AssetKey,
    *,
    layer: str,
    description: str,
    deps: Iterable[dg.AssetKey],
    kinds: set[str],
    metadata: Mapping[str, Any] | None = None,
    code_version: str | None = None,
    freshness: timedelta | None = None,
) -> dg.AssetSpec:
    """The spec of one asset of a pipeline. What the pipeline declares comes last, so it wins."""
    return dg.AssetSpec(
        key,
        deps=deps,
        skippable=True,
        description="\n\n".join(filter(None, (description, pipeline.description))),
        metadata={**(metadata or {}), **code_references(pipeline), **pipeline.metadata},
        group_name=pipeline.asset_group,
        owners=pipeline.owners,
        code_version=code_version,
        kinds=kinds,
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=freshness) if freshness else None,
        tags={"layer": layer, **pipeline.tags},
    )


def code_references(pipeline: Pipeline) -> dict[str, Any]:
    """A link to the transform, or to the fold of a stateful pipeline; none if its source text is not available.

    `dg.link_code_references_to_git` turns it into a link to a repository.
    """
    function = plain_function(pipeline.fold or pipeline.transform)
    try:
        file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (OSError, TypeError):  # declared in an interactive session, or an object with __call__
        return {}
    if file is None:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=file, line_number=line, label=pipeline.name)
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[reference])}
