#!/usr/bin/env python3
"""Texts of Viaduct beside those of `transformers`, byte for byte: each chat template of the source package llama-cpp-python with each
conversation of template_conversations.py, and expressions of template_expressions.py. Where Python raises, Viaduct must too. Prints what
differs; exit status 1 if anything does."""

import argparse
import copy
import datetime
import glob
import json
import os
import subprocess
import sys
import tarfile
import tempfile

from transformers.utils import chat_template_utils

import template_conversations
import template_expressions

NOW = datetime.datetime(2026, 2, 3, 4, 5, 6, 7)


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def published(folder):
    """The templates in the source package, downloaded into the folder unless it is there."""
    if not glob.glob(os.path.join(folder, "llama_cpp_python-*.tar.gz")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "llama-cpp-python",
                        "--dest", folder, "llama-cpp-python"], check=True)
    archive = sorted(glob.glob(os.path.join(folder, "llama_cpp_python-*.tar.gz")))[-1]
    with tarfile.open(archive) as files:
        for member in sorted(files.getmembers(), key=lambda member: member.name):
            if "/vendor/llama.cpp/models/templates/" in member.name and member.name.endswith(".jinja"):
                yield os.path.basename(member.name), files.extractfile(member).read().decode()


def normalized(messages):
    """What apply_chat_template does to messages before the template sees them."""
    messages = chat_template_utils._normalize_chat_messages(copy.deepcopy(messages))
    return chat_template_utils._alias_reasoning_fields(chat_template_utils._plain_template_data(messages))


def theirs(text, variables):
    """Python's text and ranges, or what it raises."""
    try:
        compiled = chat_template_utils._compile_jinja_template(text)
        rest = {name: value for name, value in variables.items() if name not in ("messages", "tools", "documents", "add_generation_prompt")}
        rendered, ranges = chat_template_utils._render_with_assistant_indices(
            compiled, variables.get("messages"), variables.get("tools"), variables.get("documents"), variables.get("add_generation_prompt", False), **rest)
        in_bytes = [[len(rendered[:begin].encode()), len(rendered[:end].encode())] for begin, end in ranges]
        return {"text": rendered, "generations": in_bytes}
    except Exception as error:  # whatever a template can raise
        return {"error": f"{type(error).__name__}: {error}"}


def compare(tool, named_texts, requests):
    """Pairs of our and their answers; a request is (number of template, variables)."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, (_, text) in enumerate(named_texts):
            paths.append(os.path.join(folder, f"{number}.jinja"))
            with open(paths[-1], "w", encoding="utf-8", newline="") as file:
                file.write(text)
        now = [NOW.year, NOW.month, NOW.day, NOW.hour, NOW.minute, NOW.second, NOW.microsecond]
        lines = "".join(json.dumps({"template": number, "variables": variables, "now": now}) + "\n" for number, variables in requests)
        run = subprocess.run([tool, *paths], input=lines, text=True, capture_output=True, check=True)
    ours = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(ours) == len(requests)
    for mine, (number, variables) in zip(ours, requests):
        yield number, variables, mine, theirs(named_texts[number][1], variables)


def report(name, variables, mine, other):
    print(f"{name}: {json.dumps(variables['messages'], ensure_ascii=False)[:300]}")
    if "text" in mine and "text" in other and mine["text"] != other["text"]:
        at = len(os.path.commonprefix([mine["text"], other["text"]]))
        mine, other = mine["text"][max(at - 40, 0):at + 80], other["text"][max(at - 40, 0):at + 80]
    print(f"  Viaduct: {str(mine)[:400]!r}\n  Python:  {str(other)[:400]!r}")


def run(tool, named_texts, requests, what, limit):
    pairs = differing = errors = 0
    seen = set()
    for number, variables, mine, other in compare(tool, named_texts, requests):
        if " at 0x" in other.get("text", ""):
            continue  # an address in memory: no program can print the same
        pairs += 1
        same = mine == other if "text" in other else "error" in mine
        errors += "error" in other
        if not same:
            differing += 1
            if len(seen) < limit and named_texts[number][0] not in seen:
                seen.add(named_texts[number][0])
                report(named_texts[number][0], variables, mine, other)
    print(f"{what}: {pairs} pairs ({errors} of them errors in Python), {differing} differ")
    return differing


def store(path):
    """The cases of tests/unit/template: texts and ranges, or null where Python raises."""
    def results(texts, many):
        for text in texts:
            for variables in many:
                other = theirs(text, variables)
                if " at 0x" in other.get("text", "") or ("error" in other and text.startswith("{{") and "|" in text):
                    continue
                yield {"template": text, "text": other.get("text"), "generations": other.get("generations", [])}

    chats = [dict(case, messages=normalized(case["messages"])) for case in template_conversations.CASES]
    document = {"variables": template_expressions.VARIABLES, "cases": list(results(template_expressions.TEMPLATES, [template_expressions.VARIABLES])),
                "conversations": chats, "chats": [{"template": text, "texts": [theirs(text, variables).get("text") for variables in chats]}
                                                  for text in template_expressions.CHATS]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=0)
        file.write("\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", help="the program chat_template (tests/interop/chat_template_tool.cpp)")
    parser.add_argument("--folder", help="where the source package is, or is downloaded to")
    parser.add_argument("--show", type=int, default=20, help="differences that are shown")
    parser.add_argument("--store", metavar="FILE", help="write what Python renders of our own templates, for tests/unit/template, and nothing else")
    options = parser.parse_args()
    chat_template_utils.datetime = FixedClock
    if options.store:
        return store(options.store)
    os.makedirs(options.folder, exist_ok=True)
    templates = list(published(options.folder))
    requests = []
    for number in range(len(templates)):
        for variables in template_conversations.CASES:
            ready = dict(variables, messages=normalized(variables["messages"]))
            requests.append((number, ready))
    differing = run(options.tool, templates, requests, f"{len(templates)} templates, {len(template_conversations.CASES)} conversations", options.show)
    own = [("own", text) for text in template_expressions.CHATS]
    requests = [(number, dict(variables, messages=normalized(variables["messages"]))) for number in range(len(own)) for variables in template_conversations.CASES]
    differing += run(options.tool, own, requests, "own chat templates", options.show)
    expressions = [(text, text) for text in template_expressions.TEMPLATES]
    requests = [(number, template_expressions.VARIABLES) for number in range(len(expressions))]
    differing += run(options.tool, expressions, requests, "expressions", options.show)
    return 1 if differing else 0


sys.exit(main())
