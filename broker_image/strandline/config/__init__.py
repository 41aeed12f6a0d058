"""Every setting of the project: what it means, its unit, its default and why.

`config.broker.load_broker_config` reads them once at start; afterwards settings are frozen
values that callers pass explicitly. No other package of a broker reads a setting from a file or the
environment, except that `kube` finds the API server by KUBECONFIG.
"""
