"""`python -m eos_assets.cli` is `eos`."""

from eos_assets.cli import main

main()
