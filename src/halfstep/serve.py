"""Any saved model over HTTP: the public names of `apps.serve`, which need the `serve` extra."""

from halfstep.apps.serve import create_app, run

__all__ = ["create_app", "run"]
