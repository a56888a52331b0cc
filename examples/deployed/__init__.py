"""The demo through a real deployment: SAM, deployed Lambdas, the schedule. `make deploy-local` runs it."""
