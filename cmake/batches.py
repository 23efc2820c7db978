"""batches.py SIZE ROOT SOURCE…: cuts sources into batches that one run of the compiler can take (Batches.cmake).

Prints one line a batch, its sources separated by '|'. Two sources of a batch define nothing twice in their unnamed namespaces:
functions of one name have another number of parameters, no defaults and are only called, aliases of one name are equal. Nor does
a source define a type or variable there whose name a header of another one has too: it would be ambiguous. Tests say
`using namespace test`, which the sources behind them in the batch get as well: there none may define anything whose name a
header of another one has. Headers are looked for in ROOT's folders src and tests.
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
BROUGHT_IN = re.compile(r"using [\w:]+::(\w+);")
SKIPPED = re.compile(r"(?:using namespace|static_assert|TEST|INSTANTIATE|public:|private:|[^\w\[])")


def parameters(text):
    """How many parameters the list has that `text` begins with, and whether it has defaults."""
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
    return sum(bool(part.strip()) for part in parts), any("=" in part for part in parts)


def names_behind(text):
    """The names of a declaration of several variables that `text` begins with, without the first."""
    depth, part, parts = 0, "", []
    for character in text:
        depth += character in "([{"
        depth -= character in ")]}"
        if depth == 0 and character in ",;":
            parts.append(part)
            part = ""
            if character == ";":
                break
        else:
            part += character
    return [name[1] for name in (re.match(r"\s*[*&]?(\w+)(?:\[[^\]]*\])*\s*(?:[={]|$)", part) for part in parts[1:]) if name]


def definitions(text):
    """What the unnamed namespaces of a formatted source define: {name: meaning}, where functions have the number of their
    parameters and aliases their types. None if it brings in a namespace other than `test`, whose names would be visible in the
    sources behind it."""
    if re.search(r"^using namespace (?!test;)", text, re.MULTILINE):
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
            elif rule := ALIAS.match(line[0]) or BROUGHT_IN.match(line[0]):
                found.setdefault(rule[1], set()).add(line[0])
            elif rule := FUNCTION.match(line[0]):
                count, defaults = parameters(inside[line.start() + rule.end() :])
                found.setdefault(rule[1], set()).add(f"({count}")
                if defaults or re.search(rf"[{{(,=&?:] ?{rule[1]}\b(?:<[^()]*?>)?(?! ?[(<])", text):
                    # Passed on, or called with fewer arguments: ambiguous beside another one.
                    found[rule[1]].add("value")
            elif rule := VARIABLE.match(line[0]):
                # "int a = 1, b{2};" defines two.
                for name in (rule[1], *names_behind(inside[line.start() :])):
                    found.setdefault(name, set()).add("variable")
    return found


INCLUDE = re.compile(r'^#include "(.*?)"', re.MULTILINE)
DECLARED = re.compile(r"^(?:(?:struct|class|union|enum class|enum) (\w+)|using (\w+) =|(?:inline |constexpr |extern |const )+[^(;={]*?\b(\w+)(?:\[[^\]]*\])*"
                      r"(?: =|\{|;))", re.MULTILINE)


DECLARED_FUNCTION = re.compile(r"^(?!#|//|using |namespace |static_assert|return )\w[^(;={]*?\b(\w+)\(", re.MULTILINE)


def declared_names(text):
    """The types, aliases and variables at the margin of a header."""
    return {name for names in DECLARED.findall(text) for name in names if name}


def declared_functions(text):
    """The functions at the margin of a header, as "name("."""
    return {name + "(" for name in DECLARED_FUNCTION.findall(text) if name != FOUND_BY_ARGUMENTS}


def opens_test(text):
    return re.search(r"^using namespace test;", text, re.MULTILINE) is not None


# Found by the types of its arguments, which are the source's own.
FOUND_BY_ARGUMENTS = "PrintTo"


def clash(name, own, others):
    """Whether a source cannot define `name` as `own` where others define it as `others`."""
    if name == FOUND_BY_ARGUMENTS:
        return False
    both = own | others
    if all(meaning.startswith("(") for meaning in both):
        return bool(own & others)
    return len(both) > 1 or not all(meaning.startswith("using") for meaning in both)


class Source:
    """A source: what it defines, what its headers declare, and whether it opens the namespace of what tests share."""

    def __init__(self, name, own, declared, opens):
        self.name, self.own, self.opens = name, own, opens
        self.hidden = {name for name in own if not any(meaning.startswith(("(", "using")) for meaning in own[name])}
        self.types = {name for name in declared if not name.endswith("(")}
        self.functions = {name for name in declared if name.endswith("(")}


class Batch:
    """Sources that are compiled together, and what they and their headers define."""

    def __init__(self, size):
        self.size, self.sources, self.opens = size, [], False
        self.defined, self.hidden, self.types, self.functions = {}, set(), set(), set()

    def takes(self, source):
        if len(self.sources) == self.size or any(name in self.defined and clash(name, source.own[name], self.defined[name]) for name in source.own):
            return False
        if source.hidden & self.types or source.types & self.hidden:
            return False
        if not (source.opens or self.opens):
            return True
        return not ({name + "(" for name in source.own} & self.functions or {name + "(" for name in self.defined} & source.functions)

    def add(self, source):
        self.sources.append(source.name)
        self.opens |= source.opens
        self.hidden |= source.hidden
        self.types |= source.types
        self.functions |= source.functions
        for name in source.own:
            self.defined[name] = self.defined.get(name, set()) | source.own[name]


def batches(sources, definitions_of, declared_for, size, opens=lambda source: False):
    """Puts each source into the first batch that has room for it and nothing that it defines; alone if that is not known (None)."""
    result, alone = [], []
    for name in sources:
        own = definitions_of(name)
        if own is None:
            alone.append([name])
            continue
        source = Source(name, own, declared_for(name), opens(name))
        batch = next((batch for batch in result if batch.takes(source)), None)
        if batch is None:
            batch = Batch(size)
            result.append(batch)
        batch.add(source)
    return [batch.sources for batch in result] + alone


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
        text = self.text(path) if path.endswith(".h") else ""
        # Functions matter in the namespace of what tests share, which is the one that is opened.
        names = declared_names(text) | (declared_functions(text) if path.startswith(self.folders[1]) else set())
        return frozenset(names.union(*(self.declared(header) for header in self.headers(path))))


if __name__ == "__main__":
    files = Files(sys.argv[2])
    for batch in batches(sys.argv[3:], files.definitions, files.declared, int(sys.argv[1]), lambda path: opens_test(files.text(path))):
        print("|".join(batch))
