"""The operator's command line: `chargeonce`, which is `python -m ops`."""
