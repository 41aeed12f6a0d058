"""The operator: reconciles topics and clusters into objects; never in the data path."""
