"""What some cases begin with: conversations as a data set, and a small model in three forms. Made by the program, at the first use."""

import json
import os
import random
import threading

TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
VOCABULARY = 128  # of models that read conversations; the tokenizer has fewer tokens
CONVERSATIONS, MOST_LETTERS = 300, 30  # a row of 64 tokens has room for one
BASE = {
    "model.family": "llama", "model.num_layers": 4, "model.hidden_size": 64, "model.ffn_hidden_size": 64, "model.num_attention_heads": 4,
    "model.vocab_size": VOCABULARY, "model.seq_length": 64, "model.max_position_embeddings": 128,
    "mixed_precision.recipe": "fp32", "dataset.mock": "true", "train.train_iters": 1, "train.global_batch_size": 2,
    "validation.eval_iters": 0, "logger.log_throughput": "false", "dist.threads_per_rank": 1,
}


def tokenizer():
    """A tokenizer.json whose tokens are letters, with the control tokens of ChatML."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)] + ["\u0120", "\u010a"]  # with space and line break
    added = [{"id": len(letters) + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, token in enumerate(["<|im_start|>", "<|im_end|>"])]
    return {"added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
            "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}}


def conversation(generator):
    def text():
        return "".join(generator.choice("abc de") for _ in range(generator.randint(1, MOST_LETTERS // 2))).strip() or "a"
    return {"messages": [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]}


class Inputs:
    """Paths in `folder`, which holds nothing else."""

    def __init__(self, runner, folder):
        self.runner, self.folder = runner, folder
        self.lock, self.made = threading.Lock(), set()

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        session = self.runner.run([self.runner.binary, *arguments])
        if session.status != 0:
            raise RuntimeError(f"{' '.join(arguments)}: status {session.status}: {session.error()}")

    def once(self, what, make):
        with self.lock:
            if what not in self.made:
                os.makedirs(self.folder, exist_ok=True)
                make()
                self.made.add(what)

    def conversations(self):
        """The prefix of a data set with a mask."""
        self.once("conversations", self.make_conversations)
        return self.path("chats")

    def make_conversations(self):
        os.makedirs(self.path("tokenizer"))
        files = {"tokenizer/tokenizer.json": json.dumps(tokenizer()),
                 "tokenizer/tokenizer_config.json": json.dumps({"eos_token": "<|im_end|>", "chat_template": TEMPLATE})}
        generator = random.Random(1)
        files["chats.jsonl"] = "".join(json.dumps(conversation(generator)) + "\n" for _ in range(CONVERSATIONS))
        for name, content in files.items():
            with open(self.path(name), "w") as file:
                file.write(content)
        self.run("data", "chat", "--input", self.path("chats.jsonl"), "--tokenizer", self.path("tokenizer"), "--output", self.path("chats"))

    def base(self, form):
        """A model: "run", a checkpoint; "hf", a Hugging Face folder; "gguf", a file with 8-bit weights."""
        self.once("run", lambda: self.run("train", *(f"{name}={value}" for name, value in BASE.items()), f"checkpoint.save={self.path('run')}"))
        if form == "hf":
            self.once("hf", lambda: self.run("convert", "--from", self.path("run"), "--to", self.path("hf")))
        if form == "gguf":
            self.once("gguf", lambda: self.run("convert", "--from", self.path("run"), "--to", self.path("base.gguf"), "--dtype", "q8_0"))
        return self.path("base.gguf" if form == "gguf" else form)
