"""What tenants use, and what that costs: accounts by month, of writers, readers and jobs."""
