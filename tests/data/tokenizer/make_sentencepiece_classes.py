"""Writes sentencepiece_classes.json: what transformers makes of SentencePiece models by class, as ids of texts and decoded texts.
Needs transformers 5.24 and sentencepiece from PyPI."""

import json
import pathlib
import shutil
import tempfile

from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent
TEXTS = ["", " ", "  a  b   c ", "To be, or not", "ﬁﬁ9 Ⅷ ½", "中文中文", "É e\u0301 ß İ", "x<s>y</s> <unk>z", "\t\na\r\n", "▁a ▁", "``A'' B",
         "<extra_id_0> a<extra_id_99>", "<pad><mask>", "👍🏽 \0\x07", "the the the"]
BPE, UNIGRAM = "spm_bpe", "spm_unigram"
CASES = [
    (BPE, {}, {}),
    (BPE, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True}, {"model_type": "llama"}),
    (BPE, {"tokenizer_class": "LlamaTokenizerFast", "legacy": True, "add_eos_token": True}, {}),
    (BPE, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "pad_token": "<pad>"}, {}),
    (BPE, {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_bos_token": True}, {"model_type": "mistral"}),
    (BPE, {"tokenizer_class": "GemmaTokenizer"}, {}),
    (UNIGRAM, {}, {}),
    (UNIGRAM, {"tokenizer_class": "T5Tokenizer"}, {}),
    (UNIGRAM, {"extra_ids": 0}, {"model_type": "mt5"}),
    (UNIGRAM, {"tokenizer_class": "XLMRobertaTokenizer"}, {}),
    (UNIGRAM, {"tokenizer_class": "AlbertTokenizer", "cls_token": "<pad>", "sep_token": "</s>"}, {}),
]
FILES = {"T5Tokenizer": "spiece.model", "AlbertTokenizer": "spiece.model", "XLMRobertaTokenizer": "sentencepiece.bpe.model"}


def make(model, configuration, model_configuration):
    kind = configuration.get("tokenizer_class") or ("T5Tokenizer" if model_configuration else "")
    name = FILES.get(kind, "tokenizer.model")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(HERE / model / "tokenizer.model", pathlib.Path(folder) / name)
        for file, content in (("tokenizer_config.json", configuration), ("config.json", model_configuration)):
            if content:
                (pathlib.Path(folder) / file).write_text(json.dumps(content))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        texts = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            texts.append({"text": text, "ids": ids, "with_template": tokenizer.encode(text), "decoded": tokenizer.decode(ids)})
    return {"model": model, "file": name, "tokenizer_config": configuration, "config": model_configuration, "texts": texts}


lines = [json.dumps(make(*case), ensure_ascii=True) for case in CASES]
(HERE / "sentencepiece_classes.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
