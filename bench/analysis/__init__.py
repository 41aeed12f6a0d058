"""The speed of the analysis beside DuckDB, and beside requests with pandas."""
