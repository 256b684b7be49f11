"""The resources that assets use."""
