"""What `make` runs: finding a Python, preparing the virtual environment, pinning packages."""
