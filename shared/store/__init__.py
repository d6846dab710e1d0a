"""Stores for the records: PostgreSQL for production, memory for tests and the simulator."""
