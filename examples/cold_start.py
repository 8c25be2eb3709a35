"""What to make of a skill or an occupation that nobody has seen? What is known of it: here the words of its title.

Whole skills are held out; nothing is shown of them but their titles. Run it: `python examples/cold_start.py`. It writes
cold.svg.
"""

from pathlib import Path

import halfstep as hs
from halfstep.baselines import FactorRidge, FeatureKNN, FeatureRidge
from halfstep.evaluate import evaluate
from halfstep.report import charts, write_picture


def main(folder: Path = Path(".")) -> Path:
    skills = hs.datasets.load_sample_skills()
    titles = hs.Features.of({item: {"title": item} for item in skills.item_ids.tolist()}, text=["title"])

    # Which of the held-out skills does each occupation need? Popularity cannot say: nobody has them.
    models = [FeatureRidge(reg=1.0), FeatureKNN(10), FactorRidge(reg=1.0)]
    judged = evaluate(models, skills, "cold_items", ["ndcg"], item_features=titles, n_splits=3, random_state=0)
    print(judged)

    # An occupation that is not in the table, from its title alone.
    about = {user: {"title": user} for user in skills.user_ids.tolist()}
    words = hs.Features.of(about, text=["title"])
    model = FeatureRidge(reg=1.0).fit(skills, user_features=words)
    print(model.recommend_for({"title": "Marine engineer"}, n=5))

    names = sorted(judged.models, key=lambda name: -judged.table[name]["ndcg@10"].mean)
    found = [judged.table[name]["ndcg@10"] for name in names]
    figure = charts.estimates(
        "Ranking skills that nobody has yet",
        names,
        [each.mean for each in found],
        [each.low for each in found],
        [each.high for each in found],
        x_label="ndcg@10",
        caption="A fifth of the built-in skills held out, three times; known of them are the words of their titles. "
        "95% intervals over occupations.",
        wide=True,
    )
    return write_picture(figure, folder / "cold.svg")


if __name__ == "__main__":
    print(main())
