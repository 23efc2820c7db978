"""Hugging Face's tokenizers package reads a tokenizer that we trained: same ids, same text."""

import json
import unittest

import tokenizers
from support import DATA, InteropTest, viaduct

TEXT = DATA.parent.parent / "data" / "tinyshakespeare.txt"


class TrainedTokenizer(InteropTest):
    def test_ids_agree(self):
        viaduct("tokenizer", "train", "--input", TEXT, "--vocab-size", 2048, "--output", self.folder)
        theirs = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.assertEqual(theirs.get_vocab_size(), 2048)
        self.assertEqual(theirs.token_to_id("<|endoftext|>"), 0)
        text = TEXT.read_text() + "<|endoftext|> caf\u00e9 \u4f60\u597d \U0001f600\n\t x"
        ours = json.loads(viaduct("tokenizer", "encode", "--json", "--tokenizer", self.folder,
                                  text=json.dumps(text) + "\n"))
        self.assertEqual(ours, theirs.encode(text).ids)
        self.assertEqual(theirs.decode(ours, skip_special_tokens=False), text)


if __name__ == "__main__":
    unittest.main()
