"""Which skills does a position still need? From what it lists so far, with reasons, and judged against simple rivals.

Run it: `python examples/skills_for_a_position.py`. It writes skills.svg.
"""

from pathlib import Path

import halfstep as hs
from halfstep.evaluate import evaluate
from halfstep.report import charts, write_picture

LISTED = ["Python", "SQL", "statistics"]


def main(folder: Path = Path(".")) -> Path:
    skills = hs.datasets.load_sample_skills()  # occupations x skills; load_esco(folder) reads the whole of ESCO
    model = hs.WALS(random_state=0).fit(skills)  # rank, background and penalty follow from the data

    # Is it any good? Five skills of every occupation are hidden, and all others are ranked.
    judged = evaluate(model, skills, "leave_k_out", ["ndcg", "recall"], random_state=0)
    print(judged)
    print(judged.compare("WALS", "ItemKNN"))

    # A position that is not among the occupations: its row problem is solved exactly.
    ranking = model.recommend_for(LISTED, n=10)
    print(ranking)
    best = ranking.ids[0]
    print(f"why {best}:")
    print(model.explain(items=LISTED, item=best))

    figure = charts.estimates(
        f"Beside {', '.join(LISTED)}, this position needs",
        ranking.ids.tolist(),
        ranking.scores,
        x_label="score",
        caption="WALS on the built-in occupations; a score is about the share of the way from 0, unseen, to 1, there.",
        wide=True,
    )
    return write_picture(figure, folder / "skills.svg")


if __name__ == "__main__":
    print(main())
