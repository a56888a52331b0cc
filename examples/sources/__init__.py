"""Real sources for Firn: PostgreSQL through Debezium Server, and Kafka. Run by `make example-postgres` and
`make example-kafka`; examples/postgres-debezium/README.md and examples/kafka/README.md are for the reader.
"""
