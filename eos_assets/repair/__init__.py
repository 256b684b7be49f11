"""Produce again what a proof shows missing, and list what readers have to skip."""
