"""The averaged family behind CFEnsembleCV: factor analyses, members on them, their weights."""
