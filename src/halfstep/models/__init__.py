"""Users and items: estimators that factorise, rank, explain."""
