"""`make package`: what goes to AWS, measured against its budget and put together in build/package."""
