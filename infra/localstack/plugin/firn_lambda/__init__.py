"""Two plugins that let LocalStack run Lambda functions where there is no Docker engine, and listen on loopback only."""
