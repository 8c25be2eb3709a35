"""What fitted models look like: numbers for pictures, and plotly figures of them. Stands below the estimators.

`views` and `plane` compute, `draw` makes figures of plain data, `shown` gives estimators their `plot_*` methods. None
of them knows an estimator, a page or a server.
"""
