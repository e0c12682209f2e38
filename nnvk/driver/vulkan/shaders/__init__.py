"""What is known before any model is: the declared and compiled shaders, the device they run on, and commands."""
