"""What a change is: envelopes, positions, types, values, and fold, the executable specification. No I/O."""
