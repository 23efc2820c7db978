"""Damaged and odd `tokenizer.json` files for the oracle of tokenizers: random changes of whole files, and of every kind of component."""

import copy
import json

import tokenizer_cases as cases

MARK = "\u2581"
REGEX = {"Regex": r"\s+|\p{L}+"}
STRING = {"String": " "}

# One or more well-formed examples of each kind of component, with all its members.
NORMALIZERS = [
    {"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Nmt"}, {"type": "ByteLevel"},
    {"type": "Strip", "strip_left": True, "strip_right": False}, {"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": STRING, "content": MARK},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, cases.CHARSMAP,
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}, {"type": "Sequence", "normalizers": []}]
PRE_TOKENIZERS = [
    {"type": "Split", "pattern": REGEX, "behavior": "Isolated", "invert": False}, {"type": "Split", "pattern": STRING, "behavior": "Removed", "invert": True},
    {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"}, {"type": "CharDelimiterSplit", "delimiter": "e"}, {"type": "UnicodeScripts"}, {"type": "FixedLength", "length": 3},
    {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": True}, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "never", "split": False},
    {"type": "Metaspace", "replacement": MARK, "add_prefix_space": True}, {"type": "Metaspace", "replacement": MARK, "add_prefix_space": True, "str_rep": MARK},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False},
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation"}]}, {"type": "Sequence", "pretokenizers": []}]
DECODERS = [
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}, {"type": "Metaspace", "replacement": MARK, "add_prefix_space": True},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "WordPiece", "prefix": "##", "cleanup": True},
    {"type": "CTC", "pad_token": "<s>", "word_delimiter_token": "|", "cleanup": True}, {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
    {"type": "Sequence", "decoders": []}]
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
POST_PROCESSORS = [
    TEMPLATE, {**TEMPLATE, "single": [{"Sequence": {"id": "A", "type_id": 0}}]},
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
    {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}, {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False},
    {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, TEMPLATE]},
    {"type": "Sequence", "processors": []}]
TRUNCATIONS = [None, {"direction": "Right", "max_length": 512, "strategy": "LongestFirst", "stride": 0}, {"max_length": 4, "strategy": "OnlyFirst", "stride": 1}]
PADDINGS = [None, {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"},
            {"strategy": {"Fixed": 8}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}]
STEPS = {"normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS, "decoder": DECODERS, "post_processor": POST_PROCESSORS, "truncation": TRUNCATIONS, "padding": PADDINGS}

# Forms that the package's constructors take and its files do not, and others that no file of its own has.
ODD = {"decoder": [{"type": "ByteLevel"}, {"type": "Metaspace", "replacement": MARK, "add_prefix_space": False}],
       "pre_tokenizer": [{"type": "Metaspace", "replacement": MARK, "add_prefix_space": False}, {"type": "Split", "pattern": {"String": " ", "Regex": " "}, "behavior": "Isolated", "invert": False}],
       "post_processor": [{**TEMPLATE, "single": ["<s>", "$A", "</s>:1"]}, {**TEMPLATE, "single": "<s> $A </s>"}, {**TEMPLATE, "single": TEMPLATE["pair"]},
                          {**TEMPLATE, "single": [{"Sequence": {"id": "B", "type_id": 0}}]}, {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False},
                          {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]}, {**TEMPLATE, "special_tokens": {}}],
       "normalizer": [{"type": "Strip"}, {"strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": ""}]}

LETTERS = ["<unk>", "<s>", "</s>", MARK, "a", "b", "e", "s", "t", "h", "1", "2", "\u00e9", "'", "\u0120", "\u00c3", "\u00a9"]
PAIRS = [("t", "h"), ("th", "e"), ("e", "a"), ("s", "t"), (MARK, "t"), ("\u0120", "t"), ("1", "2"), ("a", "b")]


def token(content, token_id, **flags):
    made = {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {**made, **flags}


def model(rng):
    """A small model of any kind, with all its members."""
    kind = rng.choice(["BPE", "BPE", "BPE", "Unigram", "Unigram", "WordLevel", "WordPiece"])
    tokens = LETTERS + [left + right for left, right in PAIRS] + ([f"<0x{b:02X}>" for b in range(256)] if rng.random() < 0.3 else [])
    if kind == "Unigram":
        return {"type": kind, "unk_id": 0, "vocab": [[t, -1.5 - i / 7] for i, t in enumerate(tokens)], "byte_fallback": rng.random() < 0.5}
    vocab = {t: i for i, t in enumerate(tokens)}
    if kind == "BPE":
        merges = [f"{a} {b}" for a, b in PAIRS] if rng.random() < 0.5 else [[a, b] for a, b in PAIRS]
        return {"type": kind, "dropout": None, "unk_token": rng.choice([None, "<unk>"]), "continuing_subword_prefix": rng.choice([None, None, ""]),
                "end_of_word_suffix": rng.choice([None, None, ""]), "fuse_unk": rng.random() < 0.5, "byte_fallback": rng.random() < 0.5,
                "ignore_merges": rng.random() < 0.3, "vocab": vocab, "merges": merges}
    if kind == "WordLevel":
        return {"type": kind, "vocab": vocab, "unk_token": "<unk>"}
    return {"type": kind, "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}


def document(rng):
    made = {"version": "1.0", "truncation": rng.choice(TRUNCATIONS) if rng.random() < 0.2 else None, "padding": rng.choice(PADDINGS) if rng.random() < 0.2 else None,
            "added_tokens": [token("<unk>", 0), token("<s>", 1), token("</s>", 2)]}
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        kinds = ODD[name] if rng.random() < 0.03 else STEPS[name]
        made[name] = copy.deepcopy(rng.choice(kinds)) if rng.random() < 0.5 else None
    made["model"] = model(rng)
    count = len(made["model"]["vocab"])
    for i in range(rng.randrange(0, 4)):
        made["added_tokens"].append(token(f"<e{i}>", count + i, **{flag: rng.random() < 0.3 for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}))
    return made


VALUES = [None, True, False, 0, 1, 3, -1, 1.5, 1e300, 2**31, 2**32 - 1, 2**32, 2**64, "", "a", "ab", " ", "e", MARK, "<s>", "Isolated", "isolated", "first", "always", "BPE",
          "NFC", [], [1], ["a"], ["a", 1], ["a", "b"], {}, {"a": 1}, {"String": "a"}, {"Regex": "["}, {"Regex": "a", "String": "b"}, {"type": "NFC"}, {"type": "Nothing"}, {"type": "Sequence"}]


def places(value, path=(), most=6):
    """Paths of members and elements, a few of those of long lists."""
    if isinstance(value, (dict, list)) and value:
        keys = list(value.keys() if isinstance(value, dict) else range(len(value)))
        for key in keys[:most] + keys[max(most, len(keys) - 2):]:
            yield path + (key,)
            yield from places(value[key], path + (key,), most)


def change(rng, made):
    """One random change of a file; what was changed."""
    path = rng.choice(list(places(made)))
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    where = "/".join(map(str, path))
    how = rng.choice(["drop", "replace", "replace", "replace", "rename", "more", "double", "type"])
    if how == "drop":
        del holder[key]
    elif how == "replace":
        holder[key] = copy.deepcopy(rng.choice(VALUES))
        return f"{where} = {json.dumps(holder[key])}"
    elif how == "rename" and isinstance(holder, dict):
        holder[rng.choice([str(key).upper(), str(key) + "s", "type", "unknown"])] = holder.pop(key)
    elif how == "more" and isinstance(holder, dict):
        holder[rng.choice(["more", "type", "id", "version", "cleanup"])] = copy.deepcopy(rng.choice(VALUES))
    elif how == "double" and isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    elif how == "type" and isinstance(holder[key], dict):
        holder[key]["type"] = rng.choice(["NFC", "nfc", "Sequence", "Split", "ByteLevel", "Metaspace", "Fuse", "BPE", "Unigram", "WordLevel", "", 3, None])
    else:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    return f"{how} {where}"


def change_vocabulary(rng, made):
    vocab = made["model"]["vocab"]
    if isinstance(vocab, list):
        at = rng.randrange(len(vocab))
        vocab[at] = rng.choice([vocab[0], [vocab[0][0], -9.0], ["", -1.0], [vocab[at][0], 0], [vocab[at][0], 3], [vocab[at][0], "x"], [vocab[at][0]], vocab[at] + [1],
                                {"a": 1}, [1, 1.0], [vocab[at][0], None], [vocab[at][0], -1e400], [vocab[at][0], 1e300]])
        return f"vocab/{at} = {vocab[at]}"
    name = rng.choice(sorted(vocab))
    value = rng.choice([vocab[rng.choice(sorted(vocab))], len(vocab), len(vocab) + 5, 10**6, -1, 1.0, "1", 2**31, 2**32 - 1, 2**32, None, True])
    if rng.random() < 0.2:
        name = rng.choice(["", " ", "new", "a b"])
    vocab[name] = value
    return f"vocab/{name} = {value}"


def change_merges(rng, made):
    merges = made["model"].get("merges")
    if merges is None:
        return change(rng, made)
    at = rng.randrange(len(merges))
    listed = isinstance(merges[0], list)
    values = ["a", "a  b", " a", "a ", "", "a b e", "zz a", "a zz", "b e", "#version: 0.2", ["a"], ["a", "b", "e"], ["a", "zz"], ["b", "e"], [], [1, 2], ["", "a"], None, 3, {}, "a b", ["a", "b"],
              merges[0], merges[-1]]
    merges[at] = rng.choice([v for v in values if isinstance(v, list) == listed] if rng.random() < 0.7 else values)
    return f"merges/{at} = {merges[at]!r}"


def change_added(rng, made):
    added = made["added_tokens"]
    vocab = made["model"].get("vocab")
    names = list(vocab) if isinstance(vocab, dict) else [entry[0] for entry in vocab if isinstance(entry, list) and entry]
    name = rng.choice([n for n in names if isinstance(n, str)] + ["new", "new one", "", " ", MARK])
    wanted = rng.choice([0, 1, 2, 3, 5, len(names), len(names) + 1, len(names) + 7, 2**31, 2**32, -1])
    kind = rng.randrange(5)
    if kind == 0:
        added.insert(rng.randrange(len(added) + 1), token(name, wanted, **{flag: rng.random() < 0.3 for flag in ("normalized", "special", "lstrip")}))
    elif kind == 1:
        rng.shuffle(added)
    elif kind == 2:
        rng.choice(added)["id"] = wanted
    elif kind == 3:
        rng.choice(added)["content"] = name
    else:
        added[rng.randrange(len(added))].pop(rng.choice(list(token("", 0))))
    return "added_tokens " + json.dumps(added)


def text(rng):
    """Of letters of the models above, or of anything."""
    if rng.random() < 0.3:
        return cases.text(rng)
    words = ["the", "sea", "a", "ab", "est", "12", "1", "the12", "\u00e9", "'s", "<s>", "</s>", "<unk>", "<e0>", "<e1>", "<e2>", "new", "x", "\u4f60", MARK, "<0x61>", "e'"]
    return "".join(rng.choice(words) + rng.choice(["", " ", " ", "  ", "\n", "e"]) for _ in range(rng.randrange(1, 9)))


def mutated(rng):
    """The text of a file, and what was changed in it."""
    made = document(rng)
    done = []
    for _ in range(rng.choice([0, 1, 1, 1, 1, 2])):
        kind = rng.random()
        how = change if kind < 0.6 else change_vocabulary if kind < 0.7 else change_merges if kind < 0.8 else change_added
        if how is change and rng.random() < 0.7:
            # A component alone, so that small ones are not rare.
            name = rng.choice([n for n in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "truncation", "padding") if made.get(n)] or ["model"])
            done.append(f"{name}: " + change(rng, {name: made[name]} if not isinstance(made[name], dict) else made[name]))
        else:
            try:
                done.append(how(rng, made))
            except (AttributeError, KeyError, TypeError, IndexError, ValueError):  # an earlier change took what it needs
                pass
    text = json.dumps(made, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.03:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", ",", "}", "\\", '"', "\n", "1"]) + text[at + rng.randrange(2):]
        done.append(f"text at {at}")
    elif rng.random() < 0.03:
        name = rng.choice(list(made) or ["model"])
        text = text[:-1] + ", " + json.dumps(name) + ": " + json.dumps(made.get(name)) + "}"
        done.append(f"{name} twice")
    return text, "; ".join(done)
