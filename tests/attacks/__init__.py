"""Files as an attacker makes them; ``test_*.py`` runs a short draw, ``soak.py`` a long one."""
