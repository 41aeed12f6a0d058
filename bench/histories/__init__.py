"""Histories of clusters with their truth: samples for the analysis, and what it ought to find.

One event model in plain Python, from a seed. `plan` lays faults on a range of time, `steps` says
what each fault does to brokers, `brokers` keeps processes and controllers, `partition` walks
through one partition. From these come the true tables (`truth`) and the samples that scrapes
would have taken (`signals`, `scrapes`), as a lake or as text for promtool (`written`). `scores`
compares tables with the truth. Nothing here runs Spark, and nothing that ships imports it.

Only `scrapes` and `written` need numpy and Arrow.
"""
