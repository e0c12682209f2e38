"""Selection of elements by data: sorted entries, the rows that indices name, and boxes that suppress others."""
