"""Writes what the `tokenizers` package makes of hard texts: the fixture of the word pieces.

PYTHONPATH=tools build/static/bin/python -m static_embedding.pieces TOKENIZER_JSON OUT
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from struct import pack

from tokenizers import Tokenizer

TEXTS = (
    "",
    " \t\r\n\u00a0\u3000",
    "Hello, world!",
    "don't   STOP… it's snake_case, CamelCase and kebab-case; C++ -> foo::bar(x[3]) == 0x1F?",
    "Zażółć gęślą jaźń; Ångström, naïve café, İstanbul, ﬁnal, Straße, ǅ",
    "cafe\u0301 e\u0301\u0323 \u0301 a\u0345",
    "明天下午三点开项目评审会议，重跑gen-itgc后清零",
    "日本語のテキスト、カタカナ ｶﾀｶﾅ と漢字。が か\u3099",
    "한국어 텍스트와 조사 각 \u1100\u1161\u11a8",
    "Здравствуйте, ёлка й Привет",
    "Ελληνικά: Ὀδυσσεύς ΣΊΣΥΦΟΣ ς",
    "שָׁלוֹם עולם مَرْحَبًا بالعالم",
    "हिन्दी में पाठ ไทย ภาษา தமிழ்",
    "ship it 🚀 now 👩‍👩‍👧 ❤️ 🇩🇪",
    "a\u0000b\u0001c\u200bd\ufeffe\u00adf\ufffdg\u007fh\u0085i\u2028j\u000bk",
    "\ue000private\U000f0000 \u0378unassigned\U0001fae8",
    "x" * 100 + " " + "x" * 101 + " " + "é" * 100 + " " + "é" * 101 + " " + "e\u0301" * 101,
    "antidisestablishmentarianism supercalifragilisticexpialidocious zzzzqqqqxxxx",
    "https://example.com/path/to?q=1&r=2#frag user@host.org C:\\Temp\\x.txt POL-358 v1.2.3-rc.4",
    "$100 €200 £300 ¥400 ¢ © ® ™ § ¶ † ‡ • ‰ ′ ″ ‹ › « » „ “ ” ‘ ’ – — ― ¡ ¿ · ` ^ ~ | + < = >",
    "½ ² ³ ¹ ⅓ Ⅷ ① ㎏ ℃ ℡ ﷺ",
    "\u302e\u302fa\u302eb 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒞𝓊𝓇𝓈𝒾𝓋ℯ Ａｂｃ１２３！",
    "豈更車\uf900\uf901 \U0002f800 \U00020000\U0002a6df\U0002b820\U0002ceb0\u9fff\u4dbf\u3400",
    "[unused5] ##ing # # ##",
    "The quick brown fox jumps over the lazy dog. " * 40,
)


def main() -> None:
    source, out = map(Path, sys.argv[1:])
    tokenizer = Tokenizer.from_file(str(source))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    # Every character between two letters, told by a digest for each 4,096 of them.
    digests = []
    for begin in range(0, 0x110000, 4096):
        digest = hashlib.sha256()
        for code in range(begin, begin + 4096):
            if not 0xD800 <= code < 0xE000:
                digest.update(
                    b"".join(pack("<H", one) for one in ids(f"x{chr(code)}y")) + b"\xff\xff"
                )
        digests.append(digest.hexdigest()[:16])
    made = {"texts": [[text, ids(text)] for text in TEXTS], "characters": digests}
    out.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main()
