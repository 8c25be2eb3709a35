"""Report pages: one self-contained HTML file about fitted models. Knows estimators, draws with its own SVG."""

from halfstep.apps.report import charts
from halfstep.apps.report.build import chapter, write_report
from halfstep.apps.report.page import Chapter, Facts, Figure, Note, Page, Prose, Section, Table
from halfstep.apps.report.picture import write_picture

__all__ = [
    "Chapter",
    "Facts",
    "Figure",
    "Note",
    "Page",
    "Prose",
    "Section",
    "Table",
    "chapter",
    "charts",
    "write_picture",
    "write_report",
]
