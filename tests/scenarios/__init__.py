"""Scenarios as text: docs/scenarios.md explains the language, `commands.py` lists its words."""
