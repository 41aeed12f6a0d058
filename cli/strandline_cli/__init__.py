"""Tools for people, and the modules that a demo and a bench share.

`strandline VERB`, or `python -m strandline_cli VERB`, is the one entry; `verbs/` has a file for
each verb. Brokers and operator never import this package, and their images do not hold it.
"""
