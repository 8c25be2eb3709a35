"""What the person who starts a server may decide. Knows numbers and text, nothing of models or HTTP."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from halfstep.errors import check_number, one_of

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Settings:
    """Limits and habits of one server.

    api_key : when given, every request but the pages, /health and /ready must carry it
    max_body : bytes of a request body; larger ones get 413
    max_list : ids, pairs or rows in one request; more get 422
    max_n : length of a ranking; more get 422
    timeout : seconds for one answer, for a client to send its body, and for it to read an answer
    header_timeout : seconds for a client to send the headers of a request; slower ones get 408
    max_connections : of one process; above, the one that has waited longest without a request is closed
    fit_timeout : seconds for a refit with new labels
    threads : cores that one request may use
    watch_seconds : how often the model file is looked at for a newer one; 0 never looks
    cors_origins : pages of these origins may call the server; none by default
    allowed_hosts : accepted Host headers, without port; empty accepts any
    user_name, item_name : what one row and one column of the model are called on the page; None is what the data said
    about : folder of the published data set the model was fitted to; lists can then be narrowed by what it says
    item_features : table of items that nobody has yet, by id; they enter the rankings of a model that knows features
    access_log : one JSON line for every request
    workers : processes that serve; more than one map the model file instead of reading it
    """

    api_key: str | None = None
    max_body: int = 2_000_000
    max_list: int = 1_000
    max_n: int = 1_000
    timeout: float = 10.0
    header_timeout: float = 10.0
    max_connections: int = 1_000
    fit_timeout: float = 300.0
    threads: int = 1
    watch_seconds: float = 2.0
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    user_name: str | None = None
    item_name: str | None = None
    about: str | None = None
    item_features: str | None = None
    access_log: bool = True
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("max_body", "max_list", "max_n", "max_connections", "threads", "workers"):
            check_number(name, getattr(self, name), at_least=1, whole=True)
        for name in ("timeout", "header_timeout", "fit_timeout"):
            check_number(name, getattr(self, name), above=0)
        check_number("watch_seconds", self.watch_seconds, at_least=0)
        if self.api_key is not None and (not isinstance(self.api_key, str) or len(self.api_key) < 8):
            raise ValueError("api_key must be a text of at least 8 characters, or None for no key.")

    @classmethod
    def of(cls, options: dict[str, object]) -> Settings:
        """Settings from keyword options; an unknown name raises with the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in options:
            one_of("option", name, known)
        return cls(**options)  # type: ignore[arg-type]

    def to_json(self) -> str:
        """For a worker process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        given = json.loads(text)
        return cls.of({key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    return host in LOOPBACK or host.startswith("127.")
