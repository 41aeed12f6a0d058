"""Tests of the project, one package for each area."""
