"""The fusion benchmark: data, pools, methods, the measured grid, statistics, tables. `python benchmarks/ensemble`."""
