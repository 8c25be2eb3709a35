"""What a new method must beat. Names only; each file says what it knows."""

from halfstep.baselines.ranking import ItemKNN, Popularity

__all__ = ["ItemKNN", "Popularity"]
