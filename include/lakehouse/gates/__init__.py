"""Gates at work: what an audit asks, what table metadata can answer, and the verdict."""
