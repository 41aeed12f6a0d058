"""One small world for stories and directed tests of core, controller and store.

Brokers run the shipped core, controllers the shipped controller; the store, the network, disks
and time are imitated. `tests/scenarios` drives it by text, `tests/controller` by Python.
"""
