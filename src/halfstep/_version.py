"""The version, for everybody: the files, the command and the pages name it."""

__version__ = "0.1.0"
