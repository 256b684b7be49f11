"""Fetch the files that records refer to, and read their rows."""
