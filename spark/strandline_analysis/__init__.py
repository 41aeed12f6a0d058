"""Elections and ISR changes of a cluster, and how long they took, from scraped samples."""
