"""Stands for AOSP's module of this name: a test as a dictionary of what C++ would be written from."""

import test_generator as tg


def ParseCmdLine():
    parser = tg.ArgumentParser()
    parser.add_argument("-e", "--example")
    args = tg.ParseArgs(parser)
    tg.FileNames.InitializeFileLists(args.spec, args.example)


def InitializeFiles(example_fd):
    print(f"// Generated from {tg.FileNames.specName}", file=example_fd)


def _operand(operand):
    extra = operand.type.extraParams
    return {
        "type": f"TestOperandType::{operand.type.type}",
        "dimensions": operand.type.dimensions,
        "scale": operand.type.scale,
        "zeroPoint": operand.type.zeroPoint,
        "numberOfConsumers": 0,
        "lifetime": f"TestOperandLifeTime::{operand.lifetime}",
        "channelQuant": {} if extra is None or extra.hide else {"scales": extra.scales, "channelDim": extra.channelDim},
        "isIgnored": isinstance(operand, tg.IgnoredOutput),
        "data": "TestBuffer::createFromVector<%s>({%s})"
        % (operand.type.GetCppTypeString(), operand.GetListInitialization()),
    }


def _subgraph(model):
    return {
        "operands": [_operand(operand) for operand in model.operands],
        "operations": [
            {
                "type": f"TestOperationType::{operation.optype}",
                "inputs": [operand.model_index for operand in operation.ins],
                "outputs": [operand.model_index for operand in operation.outs],
            }
            for operation in model.operations
        ],
        "inputIndexes": [operand.model_index for operand in model.GetInputs()],
        "outputIndexes": [operand.model_index for operand in model.GetOutputs()],
    }


def GetModelStruct(example):
    model = example.model
    return {
        "main": _subgraph(model),
        "referenced": [_subgraph(each) for each in model.GetReferencedModels()],
        "isRelaxed": model.isRelaxed,
        "expectedMultinomialDistributionTolerance": example.expectedMultinomialDistributionTolerance,
        "expectFailure": example.expectFailure,
        "minSupportedVersion": f"TestHalVersion::{model.version or 'UNKNOWN'}",
    }
