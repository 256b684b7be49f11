"""How it is proven: source, sinks, maps and ledger read again, and every invariant evaluated on them."""
