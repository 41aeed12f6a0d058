"""The shells of the three pure machines, the Lease watch and the replication transport."""
