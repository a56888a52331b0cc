"""The lake from Python: small programs over a stack that has the shop's events (docs/lake.md).

Each takes the stack's folder, .firn by default: `python -m examples.lake.first_table .firn`.
"""
