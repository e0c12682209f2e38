def operands(shape):
    tensors = [Input("a", "TENSOR_FLOAT32", [2]), Parameter("b", "TENSOR_FLOAT32", [2], [1.0, 2.0])]
    return *tensors, Parameter("activation", "INT32", [], [1]), Output("c", "TENSOR_FLOAT32", shape)


a, b, activation, c = operands([2])
Example(Model("V1_0").Operation("ADD", [a, b, activation], [c]), {a: [1.0, -5.0], c: [2.0, 0.0]})
Example(Model(None, True).Operation("ADD", [a, b, activation], [c]), {a: [1.0, -5.0], c: [2.001, 0.0]}, "relaxed")
a, b, activation, c = operands([3])
Example(Model("V1_0").Operation("ADD", [a, b, activation], [c]), {a: [1.0, 2.0], c: [0.0] * 3}, "wrong_shape", True)
