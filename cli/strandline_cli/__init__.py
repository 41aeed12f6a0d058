"""Tools for people, and what a demo and a bench share.

`strandline VERB`, or `python -m strandline_cli VERB`, is the one entry; `verbs/` has a file for
each. The brokers and the operator never import this package, and their images do not hold it.
"""
