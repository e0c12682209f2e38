"""The tasks of the photo server: each has its models, whose rows are computed together with those of other requests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from batches import Batches, KnownRow, Queue
from pictures import best_boxes, letters, on_canvas, pixels, text_boxes
from PIL import Image, ImageOps

CLIP = (122.771, 116.746, 104.094), (68.501, 66.632, 70.323)
IMAGENET = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
CANVASES = (736, 736), (736, 384), (384, 736)
"""The widths and heights in which text is looked for.

Pictures and lines of any size are fitted into few shapes, so that nothing is compiled while the server runs.
"""
WIDTHS = 160, 320, 640
"""The widths of lines of text, which are 48 pixels high."""


@dataclass(frozen=True)
class Kind:
    """The rows that the models of a task and type take."""

    shapes: Sequence[tuple[int, ...]]
    batches: Sequence[int] = (1, 4)
    """The numbers of rows that are computed together; fewer are padded."""
    dtype: type = np.float32


KINDS = {
    ("clip", "visual"): Kind([(3, 224, 224)], (1, 4, 8)),
    ("clip", "textual"): Kind([(77,)], dtype=np.int32),
    ("facial-recognition", "detection"): Kind([(3, 640, 640)]),
    ("facial-recognition", "recognition"): Kind([(3, 112, 112)]),
    ("ocr", "detection"): Kind([(3, height, width) for width, height in CANVASES], (1,)),
    ("ocr", "recognition"): Kind([(3, 48, width) for width in WIDTHS]),
}


@dataclass(frozen=True)
class Wanted:
    """The models that a request wants for a task: names, and options that are numbers, by type."""

    task: str
    names: dict[str, str]
    options: dict[str, dict[str, float]]

    @classmethod
    def read(cls, entries: bytes) -> list[Wanted]:
        """Read the JSON of a request. Raises ValueError for JSON of another form."""
        try:
            tasks = {task: dict(types) for task, types in dict(json.loads(entries)).items()}
            return [
                cls(
                    task,
                    {kind: str(entry["modelName"]) for kind, entry in types.items()},
                    {kind: dict(entry.get("options") or {}) for kind, entry in types.items()},
                )
                for task, types in tasks.items()
            ]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise ValueError('entries must be JSON: {task: {type: {"modelName": name, "options": {}}}}') from None

    def option(self, kind: str, name: str, default: float, least: float = 0) -> float:
        """An option of a model. Raises ValueError if it is no number of at least ``least``."""
        value = self.options.get(kind, {}).get(name, default)
        if not isinstance(value, int | float) or not value >= least:  # NaN is not
            raise ValueError(f"{self.task}: {name} must be a number of at least {least}")
        return float(min(value, 1e9))


class Models:
    """All models of a folder, and a thread that gathers rows for them. Threads may share it."""

    def __init__(self, folder: Path, load: Callable[[Path], Any]) -> None:
        """Compile all models. Raises KeyError for a folder that is no task and type, and what ``load`` raises."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._queues: dict[tuple[str, str, str], dict[tuple[int, ...], Queue]] = {}
        self._models: list[Any] = []
        self._known: list[KnownRow] = []
        self._alphabets: dict[str, str] = {}
        for file in sorted(folder.glob("*/*/*/model.onnx")):
            task, name, kind = file.parts[-4:-1]
            self._models.append(load(file))
            self._wait(self._add(task, name, kind, self._models[-1]))
            if (task, kind) == ("ocr", "recognition"):
                self._alphabets[name] = file.with_name("alphabet.txt").read_text(encoding="utf-8")

    def close(self) -> None:
        """Answer what waits, and free the memory on the device."""
        for queue in (queue for queues in self._queues.values() for queue in queues.values()):
            self._wait(queue.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        for model in self._models:
            model.close()

    def predict(self, wanted: Wanted, image: Image.Image | None, text: str) -> Any:
        """The answer to a task. Raises ValueError that names what is missing or unknown."""
        if wanted.task == "clip" and "textual" in wanted.names:
            tokens = [256, *text.encode()[:75], 257]
            row = np.pad(np.int32([tokens]), ((0, 0), (0, 77 - len(tokens))))
            return _as_text(self._compute(wanted, "textual", [row])[0])
        tasks = {"clip": self._clip, "facial-recognition": self._faces, "ocr": self._ocr}
        if wanted.task not in tasks or image is None:
            raise ValueError(f"{wanted.task!r} needs an image" if wanted.task in tasks else f"no task {wanted.task!r}")
        return tasks[wanted.task](wanted, image)

    def are_right(self) -> bool:
        """Whether every model computes what it has computed at the start. Raises what the models raise."""
        return all(self._wait(known.is_right()) for known in self._known)

    def _clip(self, wanted: Wanted, image: Image.Image) -> str:
        fitted = ImageOps.fit(image, (224, 224), Image.Resampling.BICUBIC)
        return _as_text(self._compute(wanted, "visual", [pixels(fitted, *CLIP)])[0])

    def _faces(self, wanted: Wanted, image: Image.Image) -> list[dict[str, Any]]:
        canvas, scale = on_canvas(image, 640, 640)
        (found,) = self._compute(wanted, "detection", [pixels(canvas, 127.5, 128)])
        faces = best_boxes(found, 640 / scale, image.size, wanted.option("detection", "minScore", 0.7))
        crops = [image.resize((112, 112), box=tuple(box)) for _, *box in faces]
        vectors = self._compute(wanted, "recognition", [pixels(crop, 127.5, 127.5) for crop in crops])
        return [
            {"boundingBox": dict(zip(("x1", "y1", "x2", "y2"), box, strict=True)), "score": score, "embedding": vector}
            for (score, *box), vector in zip(faces, map(_as_text, vectors), strict=True)
        ]

    def _ocr(self, wanted: Wanted, image: Image.Image) -> dict[str, list[Any]]:
        most = wanted.option("detection", "maxResolution", max(CANVASES[0]), least=1)
        canvases = [on_canvas(image, *size, most) for size in CANVASES]
        canvas, scale = max(canvases, key=lambda each: (each[1], -each[0].width * each[0].height))
        (likely,) = self._compute(wanted, "detection", [pixels(canvas, *IMAGENET)])
        boxes = text_boxes(likely[0], 1 / scale, image.size, wanted.option("detection", "minScore", 0.5))
        lines = []
        for _, left, top, right, bottom in boxes:
            width = min(max(1, round(48 * (right - left) / (bottom - top))), WIDTHS[-1])
            line = Image.new("RGB", (next(each for each in WIDTHS if each >= width), 48))
            line.paste(image.resize((width, 48), box=(left, top, right, bottom)))
            lines.append(pixels(line, 127.5, 127.5))
        results = self._compute(wanted, "recognition", lines)
        read = [letters(result, self._alphabets[wanted.names["recognition"]]) for result in results]
        least = wanted.option("recognition", "minScore", 0)
        kept = [(*box, *each) for box, each in zip(boxes, read, strict=True) if each[0] and each[1] >= least]
        sides = np.array(image.size * 4)
        corners = [np.array([x1, y1, x2, y1, x2, y2, x1, y2]) / sides for _, x1, y1, x2, y2, *_ in kept]
        return {
            "text": [row[5] for row in kept],
            "box": [share for corner in corners for share in corner.tolist()],
            "boxScore": [row[0] for row in kept],
            "textScore": [row[6] for row in kept],
        }

    async def _add(self, task: str, name: str, kind: str, model: Any) -> None:
        """Compile a model for all shapes and batches."""
        takes = KINDS[task, kind]
        batches = Batches(dict.fromkeys(takes.batches, model))
        for shape in takes.shapes:
            zeros = [np.zeros((1, *shape), takes.dtype)]
            for rows in takes.batches:
                batches.run([zeros] * rows)
            queue = self._queues.setdefault((task, name, kind), {})[shape] = Queue(batches, workers=1)
            self._known.append(await KnownRow.of(queue, zeros))

    def _compute(self, wanted: Wanted, kind: str, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Compute rows of a model, together with those of other requests."""
        name = wanted.names.get(kind, "")
        queues = self._queues.get((wanted.task, name, kind))
        if queues is None:
            raise ValueError(f"there is no model {wanted.task}/{name}/{kind}")

        async def all_rows() -> list[Any]:
            return await asyncio.gather(*(queues[row.shape[1:]].run([row]) for row in rows))

        return [output[0] for (output,) in self._wait(all_rows())]

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _as_text(vector: np.ndarray) -> str:
    return json.dumps(vector.tolist())
