def branch(code):
    x, y = Input("x", "TENSOR_FLOAT32", [2]), Output("y", "TENSOR_FLOAT32", [2])
    return Model("V1_2").Operation(code, [x], [y])


condition, x, y = Input("c", "TENSOR_BOOL8", [1]), Input("x", "TENSOR_FLOAT32", [2]), Output("y", "TENSOR_FLOAT32", [2])
branches = [SubgraphReference("then", branch("ABS")), SubgraphReference("else", branch("NEG"))]
model = Model("V1_3").Operation("IF", [condition, *branches, x], [y])
Example(model, {condition: [True], x: [-1.0, 2.0], y: [1.0, 2.0]}, "then")
Example(model, {condition: [False], x: [-1.0, 2.0], y: [1.0, -2.0]}, "else")

x = Input("x", "TENSOR_QUANT8_ASYMM_SIGNED", [1, 1, 1, 1], None, 0.5, 0)
weights = Parameter("w", "TENSOR_QUANT8_SYMM_PER_CHANNEL", [2, 1, 1, 1], [10, -10], extra=ChannelParams(0, [0.1, 0.2]))
bias = Parameter("b", "TENSOR_INT32", [2], [0, 100])
numbers = [Parameter(f"p{place}", "INT32", [], [value]) for place, value in enumerate([0, 0, 0, 0, 1, 1, 0])]
y = Output("y", "TENSOR_QUANT8_ASYMM_SIGNED", [1, 1, 1, 2], None, 1.0, 3)
Example(Model("V1_3").Operation("CONV_2D", [x, weights, bias, *numbers], [y]), {x: [8], y: [7, 5]}, "channels")

inner, h = Operand("i", "TENSOR_FLOAT16", [2]), Input("h", "TENSOR_FLOAT16", [2])
first, ignored = Output("f", "TENSOR_FLOAT16", [2]), IgnoredOutput("g", "TENSOR_FLOAT16", [2])
model = (
    Model("V1_3")
    .Operation("ABS", [h], [inner])
    .Operation("NEG", [inner], [first])
    .Operation("SQRT", [inner], [ignored])
)
Example(model, {h: [-4.0, 9.5], first: [-4.0, -9.5], ignored: [0.0, 0.0]}, "ignored")
