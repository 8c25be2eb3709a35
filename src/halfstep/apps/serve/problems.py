"""What can be wrong with a request, as exceptions that carry their HTTP status. Knows no web framework."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """An answer that is not a success: a status, one sentence, and what helps to do better."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        field: str | None = None,
        suggestions: list[Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.field = field
        self.suggestions = suggestions
        self.retry_after = retry_after

    def body(self, request_id: str = "") -> dict[str, Any]:
        """The JSON document a client gets."""
        parts = {"error": self.message, "field": self.field, "suggestions": self.suggestions, "request": request_id}
        return {name: value for name, value in parts.items() if value not in (None, "")}


class FieldError(Refusal):
    """A value that cannot be used: 422 naming the field."""

    def __init__(self, field: str, message: str, near: list[Any] | None = None) -> None:
        super().__init__(422, f"{field}: {message}", field=field, suggestions=near or None)


class Unknown(Refusal):
    """An id the model has never seen: 404 with near matches."""

    def __init__(self, field: str, what: str, given: Any, near: list[Any]) -> None:
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        super().__init__(404, f"unknown {what} {_short(given)}.{hint}", field=field, suggestions=near)


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "..."


def at_most(field: str, number: int, limit: int, what: str = "") -> None:
    """Raise a 422 when `number` is above a limit of this server."""
    if number > limit:
        raise FieldError(field, f"{number:,} {what or 'is'} above this server's limit of {limit:,}")
