"""Strandline: a replicated log on Kubernetes that you can see, break and measure."""
