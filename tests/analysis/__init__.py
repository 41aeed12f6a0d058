"""Tests of the analysis: decoding without Spark, tables with it."""
