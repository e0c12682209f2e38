"""Looking into models: how long they take and where, and what devices make of each operation."""
