"""Copies of tensors: into another order, place, padding, size or data type.

- `arrange`: a strided box of a tensor, made dense;
- `move`: a strided box, into a strided box of a tensor that keeps its other elements; and fills with one number;
- `relayout`: pixels, from vec4s of padded channels to dense ones;
- `side_by_side`: matrices that are interleaved in the rows of a tensor, where a GEMM can't read or write them there;
- `pad_box`: a box, with padding around it: one value, or the mirrored box;
- `convert`: all elements, in another data type.
"""
