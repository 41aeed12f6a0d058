"""The rules: functions of a root folder that return one sentence for each offence.

A rule never trusts that it looked at something: where it finds nothing to check in a tree
that should have it, that is an offence too. A rule knows nothing of pytest.
"""
