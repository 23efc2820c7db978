"""batches.py SIZE ROOT SOURCE…: cuts sources into batches that one run of the compiler can take (Batches.cmake).

Prints one line a batch, its sources separated by '|'. Two sources of a batch define nothing twice in their unnamed namespaces:
functions of one name have other parameters, no defaults and are only called, aliases of one name are equal. Nor does a source define a type or variable there whose
name a header of another one has too: it would be ambiguous. Headers are looked for in ROOT's folders src and tests.
"""

import functools
import os
import re
import sys

BEGIN = re.compile(r"^namespace \{$", re.MULTILINE)
END = re.compile(r"^\}  // namespace$", re.MULTILINE)
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
TEMPLATE = re.compile(r"^template <.*>\s+(?=\w)", re.MULTILINE)
# What a line at the margin defines: a type, an alias, or the last name before a value or parameters.
TYPE = re.compile(r"(?:struct|class|union|enum class|enum) (?:alignas\(.*?\) |\[\[.*?\]\] )?(\w+)")
ALIAS = re.compile(r"using (\w+) =")
VARIABLE = re.compile(r"[^(;]*?\b(\w+)(?:\[[^\]]*\])*(?: =|\{|;)")
FUNCTION = re.compile(r"[^(;={]*?\b(\w+)(?=\()")
SKIPPED = re.compile(r"(?:using namespace|using [\w:]+;|static_assert|TEST|INSTANTIATE|public:|private:|[^\w\[])")


def parameter_types(text):
    """The types of the parameter list that `text` begins with, without names, and whether it has defaults."""
    depth, part, parts = 0, "", []
    for character in text:
        depth += character in "(<[{"
        depth -= character in ")>]}"
        if depth == 0 or (depth == 1 and character == ","):
            parts.append(part)
            part = ""
            if depth == 0:
                break
        elif not (depth == 1 and character in "(<"):
            part += character
    types = [re.sub(r"\s*=.*", "", re.sub(r"\s+", " ", part).strip(), flags=re.DOTALL) for part in parts]
    return (",".join(re.sub(r"(?<=[\s&*>])\w+(\[\w*\])?$", r"\1", text).replace(" ", "") for text in types),
            any("=" in part for part in parts))


def definitions(text):
    """What the unnamed namespaces of a formatted source define: {name: meaning}, where functions and aliases have their types.
    None if it brings in another namespace, whose names would be visible in the sources behind it."""
    if re.search(r"^using namespace", text, re.MULTILINE):
        return None
    text = RAW_STRING.sub('""', text)
    found = {}
    for begin in BEGIN.finditer(text):
        end = END.search(text, begin.end())
        inside = TEMPLATE.sub("", text[begin.end() : end.start() if end else len(text)])
        for line in re.finditer(r"^\S.*$", inside, re.MULTILINE):
            if SKIPPED.match(line[0]):
                continue
            if rule := TYPE.match(line[0]):
                found.setdefault(rule[1], set()).add("type")
            elif rule := ALIAS.match(line[0]):
                found.setdefault(rule[1], set()).add(line[0])
            elif rule := FUNCTION.match(line[0]):
                types, defaults = parameter_types(inside[line.start() + rule.end() :])
                found.setdefault(rule[1], set()).add("(" + types)
                if defaults or re.search(rf"[{{(,=&?:] ?{rule[1]}\b(?:<[^()]*?>)?(?! ?[(<])", text):
                    # Passed on, or called with fewer arguments: ambiguous beside another one.
                    found[rule[1]].add("value")
            elif rule := VARIABLE.match(line[0]):
                # "int a = 1, b = 2;" defines two.
                for name in (rule[1], *re.findall(r", (\w+)(?:\[[^\]]*\])* =", line[0])):
                    found.setdefault(name, set()).add("variable")
    return found


INCLUDE = re.compile(r'^#include "(.*?)"', re.MULTILINE)
DECLARED = re.compile(r"^(?:(?:struct|class|union|enum class|enum) (\w+)|using (\w+) =|(?:inline |constexpr |extern |const )+[^(;={]*?\b(\w+)(?:\[[^\]]*\])*"
                      r"(?: =|\{|;))", re.MULTILINE)


def declared_names(text):
    """The types, aliases and variables at the margin of a header."""
    return {name for names in DECLARED.findall(text) for name in names if name}


def clash(name, own, others):
    """Whether a source cannot define `name` as `own` where others define it as `others`."""
    both = own | others
    if all(meaning.startswith("(") for meaning in both):
        return bool(own & others)
    return len(both) > 1 or not all(meaning.startswith("using") for meaning in both)


def batches(sources, definitions_of, declared_for, size):
    """Puts each source into the first batch that has room for it and nothing that it defines; alone if that is not known (None)."""
    result, alone = [], []
    for source in sources:
        own, declared = definitions_of(source), declared_for(source)
        if own is None:
            alone.append([source])
            continue
        hidden = {name for name in own if not any(meaning.startswith(("(", "using")) for meaning in own[name])}
        for batch, defined, batch_hidden, batch_declared in result:
            if (len(batch) < size and not any(name in defined and clash(name, own[name], defined[name]) for name in own)
                    and not hidden & batch_declared and not declared & batch_hidden):
                break
        else:
            batch, defined, batch_hidden, batch_declared = [], {}, set(), set()
            result.append((batch, defined, batch_hidden, batch_declared))
        batch.append(source)
        batch_hidden |= hidden
        batch_declared |= declared
        for name in own:
            defined[name] = defined.get(name, set()) | own[name]
    return [batch for batch, *_ in result] + alone


class Files:
    """The sources and headers of a checkout."""

    def __init__(self, root):
        self.folders = [os.path.join(root, "src"), os.path.join(root, "tests")]
        self.declared = functools.cache(self.declared)

    def text(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def definitions(self, path):
        return definitions(self.text(path))

    def headers(self, path):
        """Headers of the project that a file names, as far as they are in the folders."""
        for name in INCLUDE.findall(self.text(path)):
            for folder in (os.path.dirname(path), *self.folders):
                header = os.path.normpath(os.path.join(folder, name))
                if os.path.exists(header):
                    yield header
                    break

    def declared(self, path):
        """What the headers of a file declare, and those that they include."""
        names = set() if not path.endswith(".h") else declared_names(self.text(path))
        return frozenset(names.union(*(self.declared(header) for header in self.headers(path))))


if __name__ == "__main__":
    files = Files(sys.argv[2])
    for batch in batches(sys.argv[3:], files.definitions, files.declared, int(sys.argv[1])):
        print("|".join(batch))
