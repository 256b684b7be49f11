"""What is checked before a run writes anything."""
