"""Counters of a server, read as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families


def counters(text: str) -> dict[str, float]:
    """Values by name and labels, such as `halfstep_requests_total /recommend 200`; labels in order of their names."""
    return {
        " ".join([sample.name, *(sample.labels[name] for name in sorted(sample.labels))]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
