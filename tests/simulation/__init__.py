"""Tests of the simulator, and of core and controller by the simulator."""
