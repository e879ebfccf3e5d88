"""The local stack: every service of the platform on one machine, under supervisor, on 127.0.0.1."""
