"""The audit tables: ledger and topics as Delta tables, for SQL."""
