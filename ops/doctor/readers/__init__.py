"""Small readers, each of which gathers facts from one place. None of them changes anything."""
