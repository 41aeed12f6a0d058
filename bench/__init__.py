"""The figures of a cluster under faults: `strandline bench`, or `make bench`.

Measures with the modules of strandline_cli that the demo is made of, on the cluster under hack/,
and reports; it never asserts a figure. README.md beside this file says what each figure means.
"""
