"""Verbs for people: each module is one, started as `python -m strandline.cli.<verb>`."""
