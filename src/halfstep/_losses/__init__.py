"""The parts of `halfstep.losses`: what a loss is, the piecewise ones, the smooth ones, tables of pieces, targets."""
