"""Random tokenizers and texts for the oracle of tokenizers."""

import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, "tests/data/tokenizer/pipelines/unigram.json"), encoding="utf-8") as file:
    CHARSMAP = json.load(file)["tokenizer"]["normalizer"]

WORDS = """the sea ate it KING Richard's don't I'LL we've it's naïve café cafe\u0301 Straße ſtrong ﬁrst ﬆop İstanbul Größe 123 4567 3.14 1,000
x=y+z; {a:[1,2]} _under_score CamelCase http://a.b/c?d=e 你好 世界。 日本語 カタカナ ひらがな 한국어 각 Привет мир Ελληνικά שלום العربية हिन्दी ไทย
👍🏽 👩‍👩‍👧 🇩🇪 🩷 🫨 \U0001FAE9 \U000323B0 \U00011F04 \u1c89 \u0897 ½ ² Ⅷ ① ﷺ ㎏ \ufb01 \u212b e\u0323\u0302 \u0f77 \ua7cb <s> </s> <e> [INST] <|im_start|>""".split()
SPACES = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u200b", "\u0085", "", ""]
PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    r"[一-龥぀-ゟ゠-ヿ]+", r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\p{N}{1,3}", r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}&&[^\p{Han}]]+", r"\d{1,3}(?=(?:\d{3})*\b)",
]
ATOMS = (r"a b e s t \p{L} \p{Lu} \p{N} \p{P} \p{S} \p{M} \p{Han} \p{Emoji} \w \W \s \S \d \D \h . [a-e] [^a-e] [a-c[x-z]] [\p{L}&&[^a-e]] "
         r"[[:alpha:]] [[:punct:]] [[:^space:]] [\w-] [\W] \R \N \O ' é ß ſ \n ﬁ [^\s\p{L}] [k-s] [ß-ö] \x{1F600} [\u3000-\u9fff]").split()
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{,2}", "{2,}", "{1,3}?", "{2}+", "{2}?"]


def text(rng):
    parts = []
    for _ in range(rng.randrange(1, 14)):
        kind = rng.random()
        if kind < 0.75:
            parts.append(rng.choice(WORDS))
        elif kind < 0.9:
            parts.append("".join(rng.choice("abest'ſßKk1 \n.") for _ in range(rng.randrange(1, 6))))
        else:
            parts.append("".join(chr(code_point(rng)) for _ in range(rng.randrange(1, 4))))
        parts.append(rng.choice(SPACES))
    return "".join(parts)


def code_point(rng):
    while True:
        c = rng.choice([rng.randrange(0x80), rng.randrange(0x250), rng.randrange(0x3400), rng.randrange(0x10000), rng.randrange(0x32000)])
        if not 0xD800 <= c < 0xE000:
            return c


def pattern(rng, depth=0):
    ways = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        items = []
        for _ in range(rng.randrange(1, 4)):
            kind = rng.random()
            if kind < 0.72 or depth > 1:
                item = rng.choice(ATOMS)
            elif kind < 0.9:
                item = rng.choice(["(?:", "(", "(?i:", "(?>", "(?m:", "(?<x>"]) + pattern(rng, depth + 1) + ")"
            elif kind < 0.95:
                items.append(rng.choice(["(?=", "(?!"]) + rng.choice(ATOMS) + ")")
                continue
            else:
                items.append(rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"(?<=\s)", r"(?<!a|bc)", "(?i)"]))
                continue
            items.append(item + rng.choice(QUANTIFIERS))
        ways.append("".join(items))
    return "|".join(ways)


def precompiled():
    """The character map of a test's tokenizer: the package makes such a normalizer only out of a file's text."""
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": CHARSMAP, "pre_tokenizer": None,
                "post_processor": None, "decoder": None, "model": {"type": "BPE", "vocab": {}, "merges": []}}
    return Tokenizer.from_str(json.dumps(document)).normalizer


def normalizer(rng):
    one = lambda: rng.choice([
        normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents, normalizers.Strip,
        normalizers.Nmt, lambda: normalizers.Prepend("\u2581"), lambda: normalizers.Replace(" ", "\u2581"),
        lambda: normalizers.Replace(Regex(r"\s{2,}"), " "), lambda: normalizers.Replace(Regex("['´]"), "’")])()
    kind = rng.random()
    if kind < 0.4:
        return None
    return one() if kind < 0.8 else normalizers.Sequence([one() for _ in range(rng.randrange(2, 4))])


def split(rng):
    behavior = rng.choice(["removed", "isolated", "isolated", "isolated", "contiguous", "merged_with_previous", "merged_with_next"])
    chosen = rng.choice(PATTERNS) if rng.random() < 0.5 else pattern(rng)
    return pre_tokenizers.Split(Regex(chosen) if rng.random() < 0.9 else rng.choice([" ", "a", "th"]), behavior, invert=rng.random() < 0.2)


def cuts(rng, metaspace):
    steps = []
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        steps.append(rng.choice([split, split, split, lambda r: pre_tokenizers.Digits(r.random() < 0.5),
                                 lambda r: pre_tokenizers.Punctuation(r.choice(["isolated", "contiguous", "merged_with_previous"])),
                                 lambda r: pre_tokenizers.Whitespace(), lambda r: pre_tokenizers.WhitespaceSplit()])(rng))
    if metaspace:
        steps.append(pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < 0.6))
    return steps


def added(rng):
    made = []
    for content in rng.sample(["<s>", "</s>", "<e>", "[INST]", "<|im_start|>", "sea", "é", "e\u0301", "\n", "  ", " ", "ﬁ", "K", "it", "don't"], rng.randrange(0, 6)):
        made.append(AddedToken(content, single_word=rng.random() < 0.2, lstrip=rng.random() < 0.2, rstrip=rng.random() < 0.2,
                               normalized=rng.random() < 0.4, special=rng.random() < 0.5))
    return made


def aside(rng):
    """Another source of chance, of the same state, for what shall not change the rest."""
    return random.Random(repr(rng.getstate()[1][:8]))


def post_processor(rng, vocabulary):
    names = rng.sample(sorted(vocabulary), 2)
    pair = [(name, vocabulary[name]) for name in names]
    trim = lambda: processors.ByteLevel(add_prefix_space=rng.random() < 0.5, trim_offsets=rng.random() < 0.8)
    template = lambda: processors.TemplateProcessing(single=[names[0], "$A", names[1]][rng.randrange(2):rng.randrange(2, 4)], special_tokens=pair)
    return rng.choice([trim, trim, template, lambda: processors.Sequence([trim(), template()]),
                       lambda: processors.RobertaProcessing(pair[0], pair[1], rng.random() < 0.7, rng.random() < 0.5)])()


def tokenizer(rng):
    """A random tokenizer, trained on random texts."""
    other = aside(rng)
    kind = rng.choice(["bytes", "bytes", "bytes", "bpe", "bpe", "unigram"])
    sample = [text(rng) for _ in range(60)]
    if kind == "bytes":
        made = Tokenizer(models.BPE(ignore_merges=rng.random() < 0.3))
        made.pre_tokenizer = pre_tokenizers.Sequence(cuts(rng, False) + [pre_tokenizers.ByteLevel(rng.random() < 0.3, use_regex=rng.random() < 0.3)])
        made.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if rng.random() < 0.8 else [], show_progress=False)
    else:
        steps = cuts(rng, rng.random() < 0.8)
        fallback = rng.random() < 0.5
        bytes_tokens = [f"<0x{b:02X}>" for b in range(256)] if fallback else []
        if kind == "bpe":
            made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=rng.random() < 0.5, byte_fallback=fallback, ignore_merges=rng.random() < 0.2))
            trainer = trainers.BpeTrainer(vocab_size=300 + len(bytes_tokens), special_tokens=["<unk>"] + bytes_tokens, limit_alphabet=60, show_progress=False)
        else:
            made = Tokenizer(models.Unigram())
            trainer = trainers.UnigramTrainer(vocab_size=150 + len(bytes_tokens), special_tokens=["<unk>"] + bytes_tokens, unk_token="<unk>", show_progress=False)
        if steps:
            made.pre_tokenizer = pre_tokenizers.Sequence(steps)
        made.decoder = rng.choice([
            decoders.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"])),
            decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
            decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]),
            decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])])
    chosen = normalizer(rng)
    if other.random() < 0.1:
        mapped = precompiled()
        chosen = mapped if chosen is None else normalizers.Sequence([mapped, chosen])
    if chosen is not None:
        made.normalizer = chosen
    made.train_from_iterator(sample, trainer)
    document = json.loads(made.to_str())
    if kind == "unigram":
        document["model"]["byte_fallback"] = fallback
    if kind != "bytes":  # trained tokens that were only there to have ids
        document["added_tokens"] = [t for t in document["added_tokens"] if not t["content"].startswith("<0x")]
    made = Tokenizer.from_str(json.dumps(document))
    spelled = set()
    for token in added(rng):
        normal = chosen.normalize_str(token.content) if chosen is not None and token.normalized else token.content
        if (normal, token.normalized) not in spelled:  # else it is left to chance which one `tokenizers` finds
            made.add_tokens([token])
        spelled.add((normal, token.normalized))
    if other.random() < 0.6:
        made.post_processor = post_processor(other, made.get_vocab())
    return made
