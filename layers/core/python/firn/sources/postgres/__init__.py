"""PostgreSQL: pgoutput's messages, its types, and a logical slot that is read by plain SQL."""
