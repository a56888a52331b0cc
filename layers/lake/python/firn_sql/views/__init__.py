"""Views: tables that are a query over others, brought to a new cut by what changed (docs/adr/0096-views.md)."""
