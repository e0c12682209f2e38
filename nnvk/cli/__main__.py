"""``python -m nnvk.cli``."""

from nnvk.cli.main import app

if __name__ == "__main__":
    app(prog_name="nnvk")
