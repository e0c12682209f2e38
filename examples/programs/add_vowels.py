"""Adds the vowels to Arabic texts, as Piper does before it speaks them: ``pip install piper-tts==1.8.0``."""

from __future__ import annotations

from piper.tashkeel import TashkeelDiacritizer

TEXTS = "مرحبا بالعالم", "هذا نص عربي قصير"
diacritizer = TashkeelDiacritizer()


def answer() -> list[str]:
    """The texts with vowels."""
    return [diacritizer.diacritize(text) for text in TEXTS]


if __name__ == "__main__":
    print(*answer(), sep="\n")
