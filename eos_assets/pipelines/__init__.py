"""The pipelines of this project, each written as a user writes one."""
