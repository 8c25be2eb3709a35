"""Many classes, jointly, and hard votes: the committee behind CFEnsembleCV where P is not one number a cell."""
