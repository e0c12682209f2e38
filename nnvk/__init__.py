"""Android's Neural Networks API, feature level 8, on Vulkan devices.

The names here are the specification's in PEP 8 form: ``ANeuralNetworksModel_addOperand`` is `Model.add_operand`.
"""

from nnvk.api import *  # noqa: F403 - api.__all__ is the list of public names
from nnvk.api import __all__ as __all__

__version__ = "0.1.0"
