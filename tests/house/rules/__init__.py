"""The rules: functions of a root folder that return one sentence for each offence.

A tree in which a rule finds nothing to check is an offence, too. A rule does not use pytest.
"""
