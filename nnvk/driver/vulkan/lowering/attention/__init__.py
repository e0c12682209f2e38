"""ATTENTION in one dispatch: where its matrices lie in tensors, and the tiles of many queries."""
