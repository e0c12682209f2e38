"""Reads a scanned page by Docling's OCR step: ``pip install docling-slim==2.143.0``, with rapidocr."""

from __future__ import annotations

import io
from pathlib import Path

import rapidocr
from docling.backend.pypdfium2_backend import PyPdfiumDocumentBackend
from docling.datamodel.accelerator_options import AcceleratorOptions
from docling.datamodel.base_models import InputFormat, Page
from docling.datamodel.document import ConversionResult, InputDocument
from docling.datamodel.pipeline_options import OcrMode, RapidOcrOptions
from docling.models.stages.ocr.rapid_ocr_model import RapidOcrModel
from PIL import Image, ImageDraw, ImageFont

scan = Image.new("RGB", (600, 240), "white")
for top, words in ((40, "Annual report 2026"), (120, "Neural networks on any GPU")):
    ImageDraw.Draw(scan).text((40, top), words, "black", ImageFont.load_default(36))
file = io.BytesIO()
scan.save(file, "PDF")
document = InputDocument(file, InputFormat.PDF, PyPdfiumDocumentBackend, filename="scan.pdf")
models = Path(rapidocr.__file__).parent / "models"
options = RapidOcrOptions(
    backend="onnxruntime",
    lang=["en"],
    mode=OcrMode.FULL_PAGE,
    det_model_path=str(models / "PP-OCRv6_det_small.onnx"),
    cls_model_path=str(models / "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
    rec_model_path=str(models / "PP-OCRv6_rec_small.onnx"),
)
reader = RapidOcrModel(True, None, options, AcceleratorOptions())


def answer() -> list[str]:
    """The lines and the boxes around them."""
    page = Page(page_no=1)
    page._backend = document._backend.load_page(0)
    page.size = page._backend.get_size()
    (done,) = reader(ConversionResult(input=document), [page])
    return [f"{cell.text} {[round(edge) for edge in cell.rect.to_bounding_box().as_tuple()]}" for cell in done.cells]


if __name__ == "__main__":
    print(*answer(), sep="\n")
