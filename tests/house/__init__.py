"""Code that checks code: the rules of the tree, each tried on a planted offence."""
