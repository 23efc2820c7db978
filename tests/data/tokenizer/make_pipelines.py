#!/usr/bin/env python3
"""make_pipelines.py: writes pipelines/*.json, small tokenizers with the ids, offsets and texts that the `tokenizers` package gives, and patterns.json,
patterns with the pieces that it cuts. Needs tokenizers and sentencepiece (for a character map) from PyPI."""

import base64
import io
import json
import os

import sentencepiece
from tokenizers import Regex, Tokenizer, pre_tokenizers

HERE = os.path.dirname(os.path.abspath(__file__))
LETTERS = list("abcdehiklorstuw.,'!?0123\u2581\u00e9\u0301")
BYTES = [f"<0x{b:02X}>" for b in range(256)]
BYTE_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())


def bpe(letters, merges, **more):
    vocabulary = {}
    for token in letters + [a + b for a, b in merges]:
        vocabulary.setdefault(token, len(vocabulary))
    return {"type": "BPE", "vocab": vocabulary, "merges": [list(m) for m in merges], **more}


def token(content, id=0, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def make(name, texts, id_lists=(), **parts):
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                "post_processor": None, "decoder": None, **parts}
    count = len(document["model"]["vocab"])
    for i, added in enumerate(document["added_tokens"]):
        vocabulary = document["model"]["vocab"]
        known = vocabulary.get(added["content"]) if isinstance(vocabulary, dict) else None
        added["id"] = count + i if known is None else known
    theirs = Tokenizer.from_str(json.dumps(document))
    cases = []
    for special in (False, True)[:1 if document["post_processor"] is None else 2]:
        for t in texts:
            encoded = theirs.encode(t, add_special_tokens=special)
            cases.append({"text": t, "ids": encoded.ids, "offsets": encoded.offsets, "decoded": theirs.decode(encoded.ids, skip_special_tokens=False),
                          **({"special": True} if special else {})})
    cases += [{"ids": ids, "decoded": theirs.decode(ids, skip_special_tokens=False)} for ids in id_lists]
    with open(os.path.join(HERE, "pipelines", name + ".json"), "w") as file:
        json.dump({"tokenizer": document, "cases": cases}, file, ensure_ascii=True)
        file.write("\n")


def charsmap():
    rules = "".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                    for a, b in [("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\u2460", "1"), ("\u3000", " "), ("\u00ad", ""), ("K", "k")])
    with open("/tmp/rules.tsv", "w") as file:
        file.write(rules)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["the sea ate it", "a b c d e"]), model_writer=model, vocab_size=24,
                                             normalization_rule_tsv="/tmp/rules.tsv", hard_vocab_limit=False, minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.ParseFromString(model.getvalue())
    return base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


MERGES = [("t", "h"), ("th", "e"), ("s", "e"), ("se", "a"), ("\u2581", "the"), ("\u2581", "sea"), ("\u2581", "\u2581"), ("e", "\u0301")]
CHAT = [token("<s>", special=True), token("<e>", special=True, rstrip=True), token("sea!", single_word=True)]
CLEAN = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                          {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
TEXTS = ["the sea", " the  sea", "<s>the sea<s> the", "the<e>  sea <e>the", "é e\u0301 \U0001fa77z", "", "sea! asea! sea!a", "\u2581the", "zz the zz"]
FALLBACK = bpe(["<unk>"] + BYTES + LETTERS, MERGES, unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def metaspace(scheme, split=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}


for scheme in ("first", "always", "never"):
    cut = [[1 + 0xE5, 1 + 0x8F], [1 + 0xE5, 1 + 0x8F, 1 + 0xAB], [1 + 0x41, 1 + 0xE5, 257 + 1], [1 + 0xF0, 257 + 8, 1 + 0x41]]
    make(f"metaspace_{scheme}", TEXTS, cut, model=FALLBACK, pre_tokenizer=metaspace(scheme, scheme != "never"), decoder=CLEAN, added_tokens=CHAT)
make("legacy_prefix", TEXTS, model=FALLBACK, decoder=CLEAN, added_tokens=CHAT,
     normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})
make("unknown", TEXTS + ["xyz", "axyb"], model=bpe(["<unk>"] + LETTERS, MERGES, unk_token="<unk>", fuse_unk=False), pre_tokenizer=metaspace("always"),
     decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True})
make("unknown_between_bytes", ["x\u20acy", "\u20acxx\u20ac", "\u20ac"], model=bpe(["<unk>"] + [b for b in BYTES if b not in ("<0x78>",)] + LETTERS, MERGES,
     unk_token="<unk>", fuse_unk=True, byte_fallback=True), decoder=CLEAN)
UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0.0], ["\u2581", -2.0], ["\u2581the", -3.0], ["\u2581sea", -3.5], ["sea", -4.0],
           ["t", -5.0], ["h", -5.1], ["e", -5.2], ["s", -5.3], ["a", -5.4], ["i", -6.0], ["f", -6.1], ["fi", -7.5], ["1", -7.0], ["é", -7.1], ["k", -7.2]]}
for fallback in (False, True):
    model = {**UNIGRAM, "byte_fallback": fallback, "vocab": UNIGRAM["vocab"] + ([[b, -20.0] for b in BYTES] if fallback else [])}
    make("unigram_bytes" if fallback else "unigram", TEXTS + ["\ufb01t \u2460", "\ufb01\u0301", "e\u0301K\u00ad\u3000sea", "a\u0301\u0302\u0303\u0301"], model=model,
         pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("always")]}, added_tokens=CHAT,
         normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap()},
         decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True})
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTE_MODEL = bpe(BYTE_LETTERS, [("t", "h"), ("th", "e"), ("\u0120", "the"), ("s", "e"), ("se", "a"), ("\u0120", "sea")])
MARKS = ["cafe\u0301 caf\u00e9", "\ufb01n fin", "\u0041\u030a \u212b", "e\u0323\u0302 \u1ec7", "\uac01 \u1100\u1161\u11a8", "a\u0301\u0323\u0301", "\u01c5 \u0130I\u0131 \u03a3\u03c2",
         "\u0897\u0301 \ua7f2 \u32ff \u1d160", "\u0958 \u0f77", "\u00b2\u2078", "  \u3000the sea\u2028 "]
for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
    make(f"form_{form.lower()}", MARKS, model=BYTE_MODEL, normalizer={"type": form}, pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL,
         added_tokens=[token("cafe\u0301", normalized=True), token("\ufb01n", normalized=True), token("\u0120the", special=True), token("é\u0120"), token("A<")])
make("form_strip", MARKS, model=BYTE_MODEL, normalizer={"type": "Strip", "strip_left": True, "strip_right": True}, pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL)
make("spaces_taken_twice", ["a<r>  \n b", "<r> <r>  sea", "a \n<l> b", "<r>\n\n<l>", "  <w>sea <w>", "é<w> <w>\u0301"], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL,
     added_tokens=[token("<r>", rstrip=True), token("<l>", lstrip=True), token("\n"), token("  "), token("<w>", single_word=True)])
make("spaces_taken_once", ["x   y", " \n x \u00e9  ", "x<b> <b>  "], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL,
     added_tokens=[token(" ", lstrip=True, rstrip=True), token("<b>", lstrip=True, rstrip=True)])
make("empty_matches", ["the sea ate", "aXbYc", "", "XX"], model=BYTE_MODEL, decoder=BYTE_LEVEL, pre_tokenizer={"type": "Sequence", "pretokenizers": [
     {"type": "Split", "pattern": {"Regex": "(?=[A-Z])"}, "behavior": "Contiguous", "invert": False},
     {"type": "Split", "pattern": {"Regex": "e?"}, "behavior": "MergedWithNext", "invert": False}, {**BYTE_LEVEL, "use_regex": False}]})
make("letters_first", ["the sea", "\u00e9\u4f60\u597d"], model=BYTE_MODEL, decoder=BYTE_LEVEL, normalizer={"type": "ByteLevel"},
     pre_tokenizer={"type": "Split", "pattern": {"Regex": "\u0120?\\w+"}, "behavior": "Isolated", "invert": False})
make("no_decoder", ["the sea"], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL)
STEPS = lambda *steps: {"type": "Sequence", "normalizers": list(steps)}
CUTS = lambda *steps: {"type": "Sequence", "pretokenizers": list(steps)}
ISOLATED = lambda text: {"type": "Split", "pattern": {"String": text}, "behavior": "Isolated", "invert": False}
MOVED = ["the sea", " the sea", "   the", "<s> the", "<s>the<s>the", "e\u0301 the", "\ufb01t", "thethe the", "\u2581the", " \u3000 ", "", "xthe"]
for name, normalizer in [("strip", {"type": "Strip", "strip_left": True, "strip_right": False}), ("prepend", {"type": "Prepend", "prepend": "the"}),
                         ("replace", {"type": "Replace", "pattern": {"Regex": "^ +|x"}, "content": ""}),
                         ("forms", STEPS({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Nmt"}))]:
    make(f"first_after_{name}", MOVED, model=FALLBACK, pre_tokenizer=metaspace("first", False), normalizer=normalizer, added_tokens=CHAT)
    make(f"first_in_cuts_after_{name}", MOVED, model=FALLBACK, pre_tokenizer=CUTS(ISOLATED("the"), metaspace("first")), normalizer=normalizer,
         added_tokens=CHAT + [token("sea", normalized=True)])
make("first_after_marks", MOVED, model=FALLBACK, pre_tokenizer=CUTS(metaspace("always", False), ISOLATED("\u2581"), metaspace("first")))
make("trimmed", ["the sea", " the  sea ", "the\u00e9 \U0001fa77", "<s>  the"], model=BYTE_MODEL, pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}, added_tokens=CHAT,
     post_processor={**BYTE_LEVEL, "add_prefix_space": True})
make("trimmed_in_template", [" the  sea ", "\u3000the", "<e>  the "], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL, added_tokens=CHAT, post_processor={
     "type": "Sequence", "processors": [BYTE_LEVEL, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
     {"SpecialToken": {"id": "b", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
     "special_tokens": {x: {"id": x, "ids": [BYTE_MODEL["vocab"][x]], "tokens": [x]} for x in "ab"}}]})
make("trimmed_by_roberta", [" the  sea ", "sea the"], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL, post_processor={"type": "RobertaProcessing", "sep": ["a", BYTE_MODEL["vocab"]["a"]],
     "cls": ["b", BYTE_MODEL["vocab"]["b"]], "trim_offsets": True, "add_prefix_space": True})
make("trimmed_behind_template", [" the  sea ", "<s> the <s>"], model=BYTE_MODEL, pre_tokenizer=BYTE_LEVEL, added_tokens=[token(" the", lstrip=True), token("sea ", rstrip=True)], post_processor={
     "type": "Sequence", "processors": [{**BYTE_LEVEL, "add_prefix_space": True}, {"type": "RobertaProcessing", "sep": ["a", BYTE_MODEL["vocab"]["a"]], "cls": ["b", BYTE_MODEL["vocab"]["b"]],
     "trim_offsets": True, "add_prefix_space": False}, {**BYTE_LEVEL, "add_prefix_space": True}]})
make("left_out", ["a\u0301\u00e9bxc", "the\u00e9sea"], model={**BYTE_MODEL, "vocab": {k: v for k, v in BYTE_MODEL["vocab"].items() if k not in "\u00c3x"}}, pre_tokenizer=BYTE_LEVEL)

PATTERNS = [
    (r"a{2}?b", "aabb b"), (r"a{2}+", "aaaaa"), (r"a{,2}", "aaab"), (r"a{1,2}+b?", "aaaab"), ("a++b|a", "aaab aa"), ("x{a", "x{a x"), ("a{,}", "a{,} a"), ("{|}|]", "{}]a"), (r"\{2}", "{{2}"),
    ("(?i:'s|st|ss|ß|ﬁ)", "x'ſ ST ﬆ ſs ß ẞ fi ﬁ FI"), ("(?i:[ß])x", "ssx ßx Ssx sx"), ("(?i:k)", "kK\u212a"), ("(?i:t)", "rsStTﬅﬆ"), ("(?i:s)", "rsStTﬅﬆſ"), ("(?i:ﬆ)", "rsStTﬅﬆſt"), ("(?i)[^a-c]", "ABCDe"), ("(?i:[a-z]+)", "aBſ\u212aéK1"), ("a(?i)b|c", "aB C c b AB"), ("(?i:İ|ı|i)", "İIıi"), ("(?i:Strasse Fluss Kuss Fass Gasse Masse Tasse Kasse Rasse)", "straße FLUß kuss FASS gaẞe Maſse tasse kaſſe rasSE."), ("(?i:affinity)", "aﬃnitY aﬀinity afﬁnity"), ("(?i:sss|ffffi)", "sß ßs sss ffﬃ fffﬁ"), ("(?i:sß)", "sss sß ßs"),
    (r"\h+", "12fgz"), (r"\H+", "12fgz"), ("[[:punct:]]+", "a$+<_-«b"), ("[[:alpha:]]+", "aé1\u0345ⅷ²"), ("[[:word:]]+", "a_1é‿²"), ("[[:^space:]]+", "a\u0085b\u200bc"), ("[[:graph:]]+", "a b\u3000c\u00ad"),
    ("[[:cntrl:]]", "a\u0007b"), ("[[:alnum:]]+", "a1٣²b"), ("[[:upper:]]+", "AÉⅧaⒶ"), ("[[:lower:]]+", "aªé\u2170A"), ("[[:digit:]]+", "1٣²"), ("[[:xdigit:]]+", "fFgG１"), ("[[:blank:]]+", "a \t\u3000\nb"), ("[[:print:]]+", "a b\n\u0085"),
    (r"\d+", "٣1²"), (r"\w+", "é_1‿²\u0301-"), (r"\W+", "é_1‿²\u0301- ."), (r"[\w]+", "a²b¼c"), (r"[^\w\s]+", "a²¼ -b"), (r"[\W]+", "a²-"), (r"[\p{Word}]+", "a²b"), (r"\p{Punct}+", "a$-"), (r"[\p{Punct}]+", "a$-"), (r"\s+$", "a  \nb \n"), ("^a", "a\na\nba"), ("^", "a\nb\n"), ("$", "a\nb\n"), (r"\A.|.\z", "ab\ncd"), (r"a\Z", "a\nba\n"), (r".\z", "a\n"), (".+", "a\r\nb\u2028c"), ("(?m:.+)", "a\nb"),
    ("[a-c[x-z]]+", "abxyzd"), ("[a-z&&[^aeiou]]+", "hello"), ("[^a-z&&[aeiou]]+", "hello9"), ("[a-d&&c-f]", "abcdef"), ("[]a]+", "]ab"), ("[^]a]+", "]abc"), ("[a]]", "a]b"), ("[-a]+", "-ab"), ("[a-]+", "-ab"), ("[a-c-e]+", "a-ebd"), (r"[\d-]+", "1-2a"),
    (r"[\]\\\-]+", "]\\-a"), ("[[=a=]]+", "a=b"), ("[[.a.]]+", "a.b"), (r"[\b]", "\ba"), (r"[^\W\d_]+", "ab1_é"), (r"[\w&&[^\d]]+", "a1b"), (r"\p{^L}+", "a12b"), (r"\P{L}+", "a12b"), (r"\p{Han}+", "a漢字か"), (r"[\p{Hiragana}\p{Katakana}]+", "かカ漢ーa"),
    (r"\p{ uppercase letter }", "aA"), (r"\p{LC}+", "aAǅʰ1"), (r"\p{Emoji}", "😀1a"), (r"\p{Alphabetic}+", "aⅷ\u0345²"), (r"\p{S}+", "\U0001fa77\U0001fae8+a"), (r"\p{Lo}+", "\U00031350\U00011f04a"), (r"\p{M}+", "e\u0301\u0897a"), (r"\p{Cyrillic}+", "Приветx"),
    (r"(?x) a b # c", "ab a b"), (r"\u0041|\x42|\x{43}|\103", "ABCD"), (r"\t|\e|\a|\v|\f|\0", "\t\x1b\x07\x0b\x0c\0a"), (r"\R", "a\r\nb\u2028\n\n"), (r"\N+", "ab\nc"), (r"\O", "a\n"), (r"\b", "ab cd"), (r"\B", "ab cd"), (r"a\Kb", "abb"),
    (r"\s+x|\s", "   a  x  "), (r"b?\s+x|.", "b  b xx  a  x"), (r"\s?[\sa]+!|.", "  a a!  a"), (r"[a-z][a-z0-9]+!|.", "abc1 b2!x"), (r"a??a+b|.", "aaac aab"), (r"x\s++y|.", "x   y x  z"), (r"(?=\s*+x)|a", "  x a"), (r"a*?b|a{2,}c|.", "aaab aaac aaa"), (r"(?:a+|b)(?:c|d)|.", "aaaaab bc aaac"), (r"a?+a+b|.", "aab b"), (r"(?!a*b)a|\w", "aac aab"),
    (r"(?>a|ab)c", "abc ac"), ("(?<x>a)b", "ab"), ("(?'x'a)b", "ab"), ("(?<=a|bc)d", "adbcdxd"), ("(?<!a|bc)d", "adbcdxd"), ("(?#x)a", "ab"), ("a**b|a?*c", "aab aac"), ("(?:)+a?", "ab"), ("a|", "ab"), ("a*?b", "aab"), ("(?=b)|c", "abcb"), (r"\G?a" if False else "a", "ba"),
    (r" ?[^(\s|[.,!?…。，、।۔،])]+", "Hello, world (x)|y"), (r"(?:a|b)*?c|(?:ab){1,2}?", "abcabab"), (r"\s+(?!\S)|\s+", "a  b \n c  "), ("é|\U0001f600", "aé\U0001f600"), (r"[\x{1F600}-\x{1F64F}]", "a\U0001f600"), (r"\\|\/|\-|\.", r"a\b/c-d."), ("(a|b|)*c", "abc"),
]
BAD = [r"(a)\1", r"(?<x>a)\k<x>", r"\g<0>", "(?~ab)", r"(?(1)a|b)", r"\X", r"\G", r"\y", "(?<=a+)b", "(?y{g}a)", "(?W:a)", r"\p{Nothing}", "[z-a]", "[]", "(", ")", "[a", "*a", "a|*", r"\8", "(?P<n>a)", "(?s:.)", r"[a-\d]", r"[\w-z]", r"\x{110000}", "a{3,2}", "\\", "[[:foo:]", r"\cA", r"\M-a", r"\C"]
out = []
for pattern, text in PATTERNS:
    for behavior in ("isolated", "contiguous", "merged_with_previous", "merged_with_next", "removed"):
        pieces = pre_tokenizers.Split(Regex(pattern), behavior).pre_tokenize_str(text)
        out.append([pattern, text, behavior, [p for p, _ in pieces]])
with open(os.path.join(HERE, "pipelines", "patterns.json"), "w") as file:
    file.write('{"cases": [\n' + ",\n".join(json.dumps(case) for case in out) + '\n],\n"refused": ' + json.dumps(BAD) + "}\n")
