"""The figures of a cluster under faults: `python -m bench`, or `make bench`.

Measures with the modules the demo is made of, on the cluster under hack/, and reports; it never
asserts a figure. README.md beside this file says what each figure means.
"""
