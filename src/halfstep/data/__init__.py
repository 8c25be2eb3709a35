"""The outside world: ids, frames, tables, files, data sets."""
