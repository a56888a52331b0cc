"""The SQL of pipelines: what it may say (check) and how it runs on Arrow (transform). Below the lake and the jobs."""
