"""Report pages: one self-contained HTML file about fitted models. Knows estimators, draws with its own SVG."""

from halfstep.apps.report.build import chapter, write_report
from halfstep.apps.report.page import Chapter, Facts, Figure, Note, Page, Prose, Section, Table

__all__ = ["Chapter", "Facts", "Figure", "Note", "Page", "Prose", "Section", "Table", "chapter", "write_report"]
