"""Speed, as ratios measured side by side in one run: absolute numbers vary with the machine."""
