"""Views over orders, customers and clicks, and a plot of one that goes on (docs/views.md).

It takes the stack's folder, .firn by default: `python -m examples.views.plot .firn`.
"""
