"""Code that checks code: rules of the tree, and tests of each rule on a planted offence."""
