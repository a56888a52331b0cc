"""Batches that event source mappings bring (Kinesis, DynamoDB Streams, Kafka) -> staged batches."""
