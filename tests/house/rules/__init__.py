"""The rules: functions of a root folder that return one sentence for each offence.

If a rule finds nothing to check in a tree that should have it, that is an offence, too. A rule
does not use pytest.
"""
