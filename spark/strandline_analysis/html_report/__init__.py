"""One page that shows the tables of a run, without a network: `page.html_report` makes it.

The modules here take tables as lists of rows and use the standard library alone. The same tables
give the same bytes: no clock, no chance, no order of a set.
"""
