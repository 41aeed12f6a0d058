"""How long each client library waits for acknowledgements after its leader was killed."""
