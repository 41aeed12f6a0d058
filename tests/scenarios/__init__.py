"""Stories as text: the language is in docs/scenarios.md, its words are in `commands.py`."""
