"""The drivers: each a package of its own, none knows another."""
