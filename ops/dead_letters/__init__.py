"""Dead letters, wherever they lie: looked at, sent again, dropped."""
