"""What people touch: command line, report, server, tuning, demo."""
