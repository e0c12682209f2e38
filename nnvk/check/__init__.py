"""``nnvk check``: whether a device computes what the reference computes, shader by shader."""
