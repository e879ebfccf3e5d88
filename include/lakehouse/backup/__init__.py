"""What the platform knows, kept outside of it: the catalog's tables, the ledger's rows, and the objects they name."""
