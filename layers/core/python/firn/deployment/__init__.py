"""A stack, embedded or deployed: finding it, and running a flush, a rebuild or maintenance in it and waiting for it.

What the command line, examples, benchmarks and the local deployment share.
"""
