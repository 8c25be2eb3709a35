"""The parts of `halfstep.tune`: where a search looks, its trials, what it found."""
