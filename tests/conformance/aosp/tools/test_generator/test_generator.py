"""Stands for AOSP's module of this name: models and examples that specs make, and a run over all specs."""

import argparse
import os

_TYPES = {
    "FLOAT32": "float",
    "TENSOR_FLOAT32": "float",
    "TENSOR_FLOAT16": "_Float16",
    "INT32": "int32_t",
    "TENSOR_INT32": "int32_t",
    "BOOL": "bool8",
    "TENSOR_BOOL8": "bool8",
    "TENSOR_QUANT8_ASYMM": "uint8_t",
    "TENSOR_QUANT8_SYMM_PER_CHANNEL": "int8_t",
    "TENSOR_QUANT8_ASYMM_SIGNED": "int8_t",
    "SUBGRAPH": "uint32_t",
}


class FileNames:
    """The spec that is read now, and those that are left."""

    specs, specFile, specName, exampleFolder = [], "", "", ""

    @classmethod
    def InitializeFileLists(cls, spec, example):
        cls.specs = [os.path.join(spec, name) for name in sorted(os.listdir(spec)) if name.endswith(".mod.py")]
        cls.exampleFolder = example

    @classmethod
    def NextFile(cls):
        if not cls.specs:
            return False
        cls.specFile = cls.specs.pop(0)
        cls.specName = os.path.basename(cls.specFile)[: -len(".mod.py")]
        return True


class Type:
    def __init__(self, type, dimensions, scale, zero_point, extra):
        self.type, self.dimensions, self.scale, self.zeroPoint, self.extraParams = (
            type,
            dimensions,
            scale,
            zero_point,
            extra,
        )

    def GetCppTypeString(self):
        return _TYPES[self.type]


class ChannelParams:
    """Stands for SymmPerChannelQuantParams."""

    hide = False

    def __init__(self, channel, scales):
        self.channelDim, self.scales = channel, scales


class Operand:
    lifetime = "TEMPORARY_VARIABLE"

    def __init__(self, name, type, dimensions=(), value=None, scale=0.0, zero_point=0, extra=None):
        self.name, self.type, self.value = name, Type(type, list(dimensions), scale, zero_point, extra), value
        self.model_index = -1

    def GetListInitialization(self):
        words = []
        for value in self.value or ():
            is_real = self.type.GetCppTypeString() in ("float", "_Float16")
            is_flag = isinstance(value, bool)
            words.append(str(value).lower() if is_flag else f"{float(value)}f" if is_real else str(int(value)))
        return ", ".join(words)


class Input(Operand):
    lifetime = "SUBGRAPH_INPUT"


class Output(Operand):
    lifetime = "SUBGRAPH_OUTPUT"


class IgnoredOutput(Output):
    pass


class Parameter(Operand):
    lifetime = "CONSTANT_COPY"


class NoValue(Operand):
    lifetime = "NO_VALUE"


class SubgraphReference(Operand):
    lifetime = "SUBGRAPH"

    def __init__(self, name, model):
        super().__init__(name, "SUBGRAPH")
        self.model = model


class Operation:
    def __init__(self, optype, ins, outs):
        self.optype, self.ins, self.outs = optype, ins, outs


class Model:
    def __init__(self, version=None, relaxed=False):
        self.operands, self.operations, self.version, self.isRelaxed = [], [], version, relaxed

    def Operation(self, optype, ins, outs):
        self.operations.append(Operation(optype, ins, outs))
        for operand in (*ins, *outs):
            if operand not in self.operands:
                operand.model_index = len(self.operands)
                self.operands.append(operand)
        for number, operand in enumerate(each for each in self.operands if isinstance(each, SubgraphReference)):
            operand.value = [number]
        return self

    def GetInputs(self):
        return [operand for operand in self.operands if isinstance(operand, Input)]

    def GetOutputs(self):
        return [operand for operand in self.operands if isinstance(operand, Output)]

    def GetReferencedModels(self):
        return [operand.model for operand in self.operands if isinstance(operand, SubgraphReference)]


class Example:
    examples = []

    def __init__(self, model, values, name="", fails=False, tolerance=0):
        self.model, self.values, self.expectFailure = model, values, fails
        self.expectedMultinomialDistributionTolerance = tolerance
        self.testName = "_".join(word for word in (FileNames.specName, name) if word)
        Example.examples.append(self)

    @staticmethod
    def DumpAllExamples(DumpExample, example_fd):
        for example in Example.examples:
            for operand, value in example.values.items():
                operand.value = value
            DumpExample(example, example_fd)
        Example.examples = []


def ArgumentParser():
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    return parser


def ParseArgs(parser):
    return parser.parse_args()


def Run(InitializeFiles, DumpExample):
    while FileNames.NextFile():
        with open(FileNames.specFile) as spec:
            names = dict(globals())
            exec(spec.read(), names)
        with open(os.path.join(FileNames.exampleFolder, FileNames.specName), "w") as file:
            InitializeFiles(file)
            Example.DumpAllExamples(DumpExample, file)
