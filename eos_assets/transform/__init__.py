"""The user's function on Spark: the records it gets, its result, its plan, its errors."""
