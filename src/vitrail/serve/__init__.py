"""The HTTP applications: what is behind them is in `deploy/`, and in the tasks."""
