"""What mypy must refuse, each line with the error it names. Checked by test_public_types.py, never run."""

import halfstep as hs

hs.WALS(rnk=3)  # refused: call-arg
hs.WALS(rank="many")  # refused: arg-type
hs.PLQMF(rhoo=0.5)  # refused: call-arg
hs.CFEnsemble(ranks=2)  # refused: call-arg
hs.Wals()  # refused: attr-defined
hs.losses.Hubber()  # refused: attr-defined
hs.weights.Certain()  # refused: attr-defined
hs.baselines.Median()  # refused: attr-defined
hs.datasets.load_everything()  # refused: attr-defined
hs.load(3)  # refused: arg-type
number: int = hs.WALS  # refused: assignment
hs.CFEnsembleCV(label=3)  # refused: call-arg
hs.CFEnsembleCV().fitt()  # refused: attr-defined
hs.WALS().recomend("u")  # refused: attr-defined
