"""The ledger: what was taken, written, published, missed and maintained. A PostgreSQL database of its own."""
