"""Alerts: what somebody is told about a stack, once when it begins and once when it ends (docs/alerts.md)."""
