"""Parts that do not depend on a model: declared and compiled shaders, the device profile, and commands."""
