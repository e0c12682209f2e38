"""Everything that is known before a model is: declared and compiled shaders, the device profile, and commands."""
