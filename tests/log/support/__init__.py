"""What the tests of the log are made with."""
