"""The soak of `eos chaos`: faults at random while records are loaded and processed, and a checker of what was seen."""
