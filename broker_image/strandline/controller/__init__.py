"""The controller: broker liveness, leader elections, ISR changes and their propagation.

Pure: no clock, random, file, socket, logger, metric or `async`. Shells and the simulator
drive `controller.Controller.step` and perform its effects.
"""
