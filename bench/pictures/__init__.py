"""The pictures and example rows of docs/tables.md, drawn from an example history.

`example` makes the rows with Spark and keeps them in docs/pictures/example.json; `drawn` draws
them with the code of the report, without Spark; `python -m bench.pictures` does both.
"""
