#!/usr/bin/env python3
"""Writes src/data/tokenizer/unicode_tables.cpp.in: the classes, mappings and normal forms of characters as the `tokenizers` package has
them. Its parts follow different versions of Unicode, so the tables are read out of the package itself, by asking it about every
character. `unicodedata2` names the version of its regular expressions' classes and proves the reading: both must agree on all
categories. Run it by run.sh beside this file."""

import sys

import tokenizers
import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CHARACTERS))
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi
Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic Cuneiform Cypriot
Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian
Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana
Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar
Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao
Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki
Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya
Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian
Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham
Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho
Warang_Citi Yezidi Yi Zanabazar_Square""".split()
PROPERTIES = """Alpha Lower Upper Punct Graph Print Word Space Emoji Emoji_Presentation Emoji_Modifier Emoji_Modifier_Base
Extended_Pictographic Ideographic""".split()


def matched(pre_tokenizer, text=ALL):
    """The characters that a pre-tokenizer keeps."""
    return {ord(c) for piece, _ in pre_tokenizer.pre_tokenize_str(text) for c in piece}


def regex_class(pattern):
    return matched(pre_tokenizers.Split(Regex(pattern), "removed", invert=True))


def runs(value_of):
    """Begins of stretches of equal values: [(first character, value)]. Surrogates count as their neighbours below."""
    found, last = [], None
    for c in CHARACTERS:
        value = value_of(c)
        if value != last:
            found.append((c, value))
        last = value
    return found


def ranges(characters):
    """Begins and ends (one past the last) in turn, each as its distance from the one before."""
    bounds = [c for c, inside in runs(lambda c: c in characters)]
    bounds = bounds[0 if bounds and bounds[0] in characters else 1:]
    return [b - a for a, b in zip([0, *bounds], bounds)]


def deltas(mapping):
    """[(first, last, step, difference)] of a map from characters to characters."""
    found = []
    for c in sorted(mapping):
        delta = mapping[c] - c
        if found:
            first, last, step, known = found[-1]
            gap = c - last
            if known == delta and gap in (1, 2) and (step == 0 or step == gap):
                found[-1] = (first, c, gap, delta)
                continue
        found.append((c, c, 0, delta))
    return [(first, last, max(step, 1), delta) for first, last, step, delta in found]


def array(name, numbers, kind="uint32_t"):
    lines, line = [], "   "
    for number in numbers:
        word = f" {number:#x}," if number > 99999 else f" {number},"
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "   "
        line += word
    lines.append(line)
    return f"const {kind} {name}[] = {{\n" + "\n".join(lines) + "\n};\n" + f"const size_t {name}Size = std::size({name});\n"


def fold_groups():
    """Characters that (?i) takes for one another, each mapped to the first of its group, and texts that match one character."""
    lower = normalizers.Lowercase()
    cased = {c for c in CHARACTERS
             if lower.normalize_str(chr(c)) != chr(c) or chr(c).lower() != chr(c) or chr(c).upper() != chr(c) or chr(c).casefold() != chr(c)}
    cased |= {ord(x) for c in list(cased) for x in lower.normalize_str(chr(c)) + chr(c).upper() + chr(c).casefold()}
    text = "\n".join(map(chr, sorted(cased)))  # apart: a ligature matches letters that follow one another
    groups, longer = {}, {}
    for c in sorted(cased):
        same = matched(pre_tokenizers.Split(Regex(r"(?i:\x{%x})" % c), "removed", invert=True), text)
        if len(chr(c).casefold()) > 1:
            longer[c] = chr(c).casefold()
        for other in same:
            if min(same) != other:
                groups[other] = min(same | {groups.get(x, x) for x in same})
    return groups, longer


def lowercase():
    made, special = {}, {}
    normalizer = normalizers.Lowercase()
    for c in CHARACTERS:
        text = normalizer.normalize_str(chr(c))
        if len(text) == 1 and text != chr(c):
            made[c] = ord(text)
        elif len(text) != 1:
            special[c] = text
    if special != {0x130: "i\u0307"}:
        sys.exit(f"lower case of more than U+0130 has another length: {special}")
    return made


def normal_forms():
    """Canonical decompositions, those that composition undoes, and compatibility decompositions, all in full; combining classes."""
    nfd, nfkd, nfc = normalizers.NFD(), normalizers.NFKD(), normalizers.NFC()
    hangul = range(0xAC00, 0xD7A4)
    canonical, compatible, pairs = [], [], []
    for c in CHARACTERS:
        if c in hangul:
            continue
        full = nfd.normalize_str(chr(c))
        if full != chr(c):
            canonical += [c, len(full), *map(ord, full)]
        other = nfkd.normalize_str(chr(c))
        if other != full:
            compatible += [c, len(other), *map(ord, other)]
        parts = unicodedata2.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(x, 16)) for x in parts)
            if nfc.normalize_str(pair) == chr(c):
                pairs.append((ord(pair[0]), ord(pair[1]), c))
    # A mark that the package knows is ordered before U+0345, whose class is the highest.
    def class_of(c):
        k = unicodedata2.combining(chr(c))
        if k == 0:
            return 0
        if k == 240:
            return 240 if nfd.normalize_str("a" + chr(c) + "\u0301") == "a\u0301" + chr(c) else 0
        return k if nfd.normalize_str("a\u0345" + chr(c)) == "a" + chr(c) + "\u0345" else 0

    classes_of = runs(class_of)
    return canonical, compatible, pairs, classes_of


def words():
    """Rust's \\w: the characters that Whitespace keeps in one piece with a letter."""
    made = set()
    for begin in range(0, len(CHARACTERS), 1 << 16):
        part = [c for c in CHARACTERS[begin:begin + (1 << 16)] if not chr(c).isspace()]
        text = " ".join("a" + chr(c) for c in part)
        for piece, _ in pre_tokenizers.Whitespace().pre_tokenize_str(text):
            if len(piece) == 2 and piece[0] == "a":
                made.add(ord(piece[1]))
    return made


def graphemes():
    """Characters that extend the one before, and that take the one after, in extended grapheme clusters."""
    cut = pre_tokenizers.Split(Regex(r"\X"), "isolated")
    extend, prepend = set(), set()
    for begin in range(0, len(CHARACTERS), 1 << 16):
        part = CHARACTERS[begin:begin + (1 << 16)]
        for piece, _ in cut.pre_tokenize_str("".join("\na" + chr(c) for c in part)):
            if len(piece) == 2 and piece[0] == "a":
                extend.add(ord(piece[1]))
        for piece, _ in cut.pre_tokenize_str("".join("\n" + chr(c) + "a" for c in part)):
            if len(piece) == 2 and piece[1] == "a":
                prepend.add(ord(piece[0]))
    return extend, prepend


def one_by_one(pre_tokenizer):
    """The characters that a pre-tokenizer cuts out of letters."""
    made = set()
    for begin in range(0, len(CHARACTERS), 1 << 16):
        part = CHARACTERS[begin:begin + (1 << 16)]
        for piece, _ in pre_tokenizer.pre_tokenize_str("a" + "a".join(map(chr, part)) + "a"):
            if len(piece) == 1 and piece != "a":
                made.add(ord(piece))
    return made


def main(output):
    category = {}
    for index, name in enumerate(CATEGORIES):
        if name == "Cs":
            continue
        for c in regex_class(r"\p{%s}" % name):
            category[c] = index
    for c in CHARACTERS:
        if unicodedata2.category(chr(c)) != CATEGORIES[category[c]]:
            sys.exit(f"unicodedata2 {unicodedata2.unidata_version} has U+{c:04X} in {unicodedata2.category(chr(c))}, tokenizers in "
                     f"{CATEGORIES[category[c]]}: take the version that agrees (requirements.txt)")
    script, names = {}, []
    for name in SCRIPTS:
        try:
            members = regex_class(r"\p{%s}" % name)
        except Exception:
            continue
        names.append(name)
        for c in members:
            script[c] = len(names)
    parts = [array("kCategoryRuns", [c << 5 | value for c, value in runs(category.get)]),
             array("kScriptRuns", [c << 8 | value for c, value in runs(lambda c: script.get(c, 0))])]
    parts.append("const char* const kScriptNames[] = {\n    " + ", ".join(f'"{n}"' for n in names) +
                 ",\n};\nconst size_t kScriptNamesSize = std::size(kScriptNames);\n")
    sets, set_names = [], []
    for name in PROPERTIES:
        try:
            bounds = ranges(regex_class(r"\p{%s}" % name))
        except Exception:
            print("no property", name)
            continue
        set_names.append(name)
        sets += [len(bounds), *bounds]
    extend, prepend = graphemes()
    for name, members in [("Rust_Word", words()), ("Rust_Numeric", one_by_one(pre_tokenizers.Digits(individual_digits=True))),
                          ("Rust_Punctuation", one_by_one(pre_tokenizers.Punctuation("isolated"))),
                          ("Rust_Mark", {c for c in CHARACTERS if normalizers.StripAccents().normalize_str(chr(c)) == ""}),
                          ("Grapheme_Extends", extend), ("Grapheme_Prepends", prepend)]:
        bounds = ranges(members)
        set_names.append(name)
        sets += [len(bounds), *bounds]
    parts.append("const char* const kSetNames[] = {\n    " + ", ".join(f'"{n}"' for n in set_names) +
                 ",\n};\nconst size_t kSetNamesSize = std::size(kSetNames);\n")
    parts.append(array("kSets", sets))
    parts.append(array("kLowercase", [x for run in deltas(lowercase()) for x in run], "int32_t"))
    groups, longer = fold_groups()
    parts.append(array("kCaseGroups", [x for run in deltas(groups) for x in run], "int32_t"))
    parts.append(array("kLongFolds", [x for c, text in sorted(longer.items()) for x in (c, len(text), *map(ord, text))]))
    canonical, compatible, pairs, classes = normal_forms()
    parts.append(array("kCanonical", canonical))
    parts.append(array("kCompatible", compatible))
    parts.append(array("kCompositions", [x for pair in sorted(pairs) for x in pair]))
    parts.append(array("kCombiningRuns", [c << 8 | value for c, value in classes]))
    head = (f"// Made by tools/unicode/make_tables.py from tokenizers {tokenizers.__version__}, checked with unicodedata2 "
            f"{unicodedata2.unidata_version}. Do not edit.\n// clang-format off\n\n"
            '#include "data/tokenizer/unicode_tables.h"\n\n#include <iterator>\n\nnamespace viaduct::unicode_tables {\n\n'
            f'const char* const kUnicodeVersion = "{unicodedata2.unidata_version}";\n'
            f'const char* const kTokenizersVersion = "{tokenizers.__version__}";\n\n')
    with open(output, "w", encoding="ascii") as file:
        file.write(head + "\n".join(parts) + "\n}  // namespace viaduct::unicode_tables\n")


main(sys.argv[1])
