"""What is minimised, and the one loop. Knows two sides, never users or items."""
