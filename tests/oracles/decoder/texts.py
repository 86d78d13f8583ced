"""300 texts of many scripts, and the characters of Unicode, for tokenizers."""

from __future__ import annotations

import random
import unicodedata

SENTENCES = [
    "In the beginning God created the heaven and the earth. It's what we'll say, isn't it?",
    "Größe, Übermut und Straßenbahn: 3,14 € für 12 345 Stück – „so nicht“.",
    "Être ou ne pas être, telle est la question ; l'œuvre coûte 1 000 €.",
    "El niño comió piñas en España. ¿Qué pasó? ¡Nada!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Zażółć gęślą jaźń, 25%.",
    "Çok güzel bir gün; İstanbul'da ılık hava.",
    "Ο καιρός είναι καλός σήμερα, 21 βαθμοί.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Щастям б'єш жук їх глицю в фон й ґедзь пріч.",
    "בראשית ברא אלהים את השמים ואת הארץ׃",
    "في البداية خلق الله السموات والأرض، ١٢٣٤ سنة.",
    "همهٔ افراد بشر آزاد به دنیا می‌آیند.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतंत्रता प्राप्त है। २०२४",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। ১২৩",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน ๒๕๖๗",
    "すべての人間は、生まれながらにして自由であり、2024年12月。",
    "人人生而自由,在尊严和权利上一律平等。他們賦有理性和良心。",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "ყველა ადამიანი იბადება თავისუფალი.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար։",
    "የሰው ልጅ ሁሉ ሲወለድ ነጻ ነው።",
    "ទាំងអស់កើតមកមានសេរីភាព។",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 ﬁ ﬂ Ⅷ ½ ²³ ∑∫≠ ←→ ✓ 🤷🏽‍♀️ 🇩🇪 👩‍👩‍👧‍👦",
    "def f(x):\n    return {'a': x**2, \"b\": [1, 2.5e-3]}  # TODO: it's O(n)\n\n\n\tend",
    "A\u00a0b\u2003c\u200bd\u2028e\u3000f\u0085g\r\nh\ti   j\n \n k  ",
    "I'M SURE THEY'LL'VE 'tis o'clock 'S 'ſ it’s",
]


def texts() -> list[str]:
    draw = random.Random(57)
    made = list(SENTENCES)
    marks = [" ", "  ", "\n", "\n\n", "\t", "", ", ", " — ", "'s ", "123", " 4567 ", "<s>"]
    while len(made) < 300:
        parts = draw.sample(SENTENCES, 3)
        text = ""
        for part in parts:
            begin = draw.randrange(len(part))
            text += part[begin:begin + draw.randrange(1, 60)] + draw.choice(marks)
        if draw.random() < 0.2:
            text = text.upper()
        if draw.random() < 0.2:
            text = unicodedata.normalize("NFD", text)
        made.append(text)
    return made


def all_characters() -> list[str]:
    """Each character of the first two planes between a letter and a digit, and after a space."""
    made = []
    for begin in range(0, 0x20000, 0x400):
        codes = [c for c in range(begin, begin + 0x400)
                 if c != 0 and not 0xD800 <= c < 0xE000]
        if codes:
            made.append("".join(f"a{chr(c)}1 {chr(c)}" for c in codes))
    return made
