"""The audit tables: what the ledger and the topics say, as Delta tables for plain SQL."""
