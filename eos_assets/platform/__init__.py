"""Settings, jars and Spark sessions of the machine that the platform runs on."""
