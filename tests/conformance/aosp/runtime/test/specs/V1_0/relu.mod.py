x, y = Input("x", "TENSOR_FLOAT32", [2, 2]), Output("y", "TENSOR_FLOAT32", [2, 2])
model = Model("V1_0").Operation("RELU", [x], [y])
Example(model, {x: [-1.5, 0.0, 1e-3, 4.0], y: [0.0, 0.0, 1e-3, 4.0]})
Example(model, {x: [1.0, 2.0, 3.0, -4.0], y: [1.0, 2.0, 3.0, 0.0]}, "again")

q, r = Input("q", "TENSOR_QUANT8_ASYMM", [3], None, 0.5, 10), Output("r", "TENSOR_QUANT8_ASYMM", [3], None, 0.5, 10)
Example(Model("V1_0").Operation("RELU", [q], [r]), {q: [0, 10, 255], r: [10, 10, 255]}, "quant8")
