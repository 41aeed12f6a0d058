"""Every setting of the project: what it means, its unit, its default and why.

Read once at start by `config.broker.load_broker_config`; afterwards settings are frozen
values that are handed over explicitly. Nothing below this package reads a file or the
environment for configuration.
"""
