"""With what: the clients and sessions, as Dagster resources."""
