"""What went wrong in a cluster, for how long, and because of whom: from scraped samples."""
