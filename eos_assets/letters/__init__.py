"""Dead letters as a workflow: list them by reason, show one, replay them through today's transform, discard them."""
