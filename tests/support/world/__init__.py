"""One small world for scenarios and directed tests of core, controller and store.

Brokers run the shipped core, and controllers are the shipped controller; the world imitates the
store, the network, disks and time. `tests/scenarios` drives it by text, `tests/controller` by
Python.
"""
