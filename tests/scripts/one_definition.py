#!/usr/bin/env python3
"""Refuses a second definition: one_definition.py [--root FOLDER] [FOLDER…]   (src and apps)

Two files that define a type, an inline function or an inline variable of the same full name give one program two meanings of
that name. The compiler sees one file at a time and the linker keeps one of them without a word: the program then builds, and
destroys objects of one type as the other. Names in unnamed namespaces, of local types and of static functions belong to their
file and are not compared; nor are declarations.

Reads C++ by its tokens: namespaces, classes and the braces between them. The branches of an #if are read one after the other,
each from the state before it. Definitions that exclude each other within one file are therefore fine, as the compiler checks
each file by itself. Files that are built instead of others (NAME_absent, without_NAME, NAME_portable) repeat their names on
purpose. Exit status 1 if there are findings."""

import argparse
import pathlib
import re
import sys
from collections import defaultdict

TOKEN = re.compile(
    r'(?P<skip>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/)'
    r'|(?P<directive>\#(?:/\*.*?\*/|\\\n|[^\n])*)'
    r'|(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)"
    r'|(?P<mark_token>::|->|\[\[|\]\]|&&|.)', re.DOTALL)
TYPE_WORDS = {'class', 'struct', 'union', 'enum'}
NEVER_NAMES = TYPE_WORDS | {'const', 'int', 'char', 'bool', 'double', 'float', 'void', 'auto', 'unsigned', 'long', 'short', 'signed'}


def is_word(token):
    return bool(re.match(r'[A-Za-z_]', token))


def tokens_of(code):
    """(token, line); a directive is one token, a literal the token '""'."""
    line = 1
    for match in TOKEN.finditer(code):
        kind = match.lastgroup
        if match['directive'] is not None:
            yield match[0], line
        elif match['raw'] is not None or match['text'] is not None:
            yield '""', line
        elif kind != 'skip':
            yield match[0], line
        line += match[0].count('\n')


def skip_pair(tokens, begin, opens, closes):
    """The index after the bracket that closes tokens[begin]."""
    depth = 0
    for index in range(begin, len(tokens)):
        if tokens[index] == opens:
            depth += 1
        elif tokens[index] == closes:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(tokens)


def without_prefix(head):
    """The head of a declaration without `template <…>`, `requires (…)` and attributes, and whether it is a specialization."""
    index, specialized = 0, False
    while index < len(head):
        if head[index] == 'template' and head[index + 1:index + 2] == ['<']:
            end = skip_pair(head, index + 1, '<', '>')
            specialized = end == index + 3
            index = end
        elif head[index] == '[[':
            index = skip_pair(head, index, '[[', ']]')
        elif head[index] == 'requires':
            index += 1
            while index < len(head) and head[index] not in TYPE_WORDS | {'inline', 'constexpr', 'static'}:
                closes = {'(': ')', '<': '>'}.get(head[index])
                index = skip_pair(head, index, head[index], closes) if closes else index + 1
        else:
            break
    return head[index:], specialized


def type_name(head):
    """The name of the type whose body follows `head`: '' without a name, None if no type is defined."""
    rest, _ = without_prefix(head)
    while rest and rest[0] in {'typedef', 'static', 'const', 'constexpr', 'inline'}:
        rest = rest[1:]
    if not rest or rest[0] not in TYPE_WORDS:
        return None
    index, name = 1, []
    if rest[0] == 'enum' and rest[1:2] and rest[1] in {'class', 'struct'}:
        index = 2
    while index < len(rest):
        token = rest[index]
        if token == '[[':
            index = skip_pair(rest, index, '[[', ']]')
        elif token == 'alignas' or (is_word(token) and not name and rest[index + 1:index + 2] == ['(']):
            index = skip_pair(rest, index + 1, '(', ')')  # alignas(64), a macro with arguments
        elif token == 'final':
            index += 1
        elif token == ':':
            break
        elif token == '<':
            end = skip_pair(rest, index, '<', '>')
            name.append(''.join(rest[index:end]))
            index = end
        elif token == '::':
            name.append('::')
            index += 1
        elif is_word(token):
            if name and name[-1] != '::':
                return None  # `struct Result find(…)`, `enum Kind kind`
            name.append(token)
            index += 1
        else:
            return None  # `struct Result find(…)`, `struct Point origin = …`
    return ''.join(name)


def parameter_types(tokens):
    """The types of a parameter list: without names and default values."""
    parameters, current, depth = [], [], 0
    for token in tokens + [',']:
        if token == ',' and depth == 0:
            if '=' in current:
                current = current[:current.index('=')]
            named = len(current) > 1 and is_word(current[-1]) and current[-1] not in NEVER_NAMES
            if named and current[-2] not in ('::', 'const'):
                current = current[:-1]
            parameters.append(' '.join(current))
            current = []
            continue
        depth += (token in '(<[{') - (token in ')>]}')
        current.append(token)
    return ', '.join(parameters)


def function_name(head):
    """`name(types)` of the function whose body follows `head`, None if it is none or belongs to its file."""
    rest, _ = without_prefix(head)
    if 'static' in rest:
        return None
    depth = 0
    for index, token in enumerate(rest):
        if token == '=' and depth == 0 and 'operator' not in rest[:index]:
            return None
        if token == '<' and 'operator' not in rest[:index]:
            depth += 1
        elif token == '>' and depth > 0:
            depth -= 1
        elif token == '(' and depth == 0:
            if index and rest[index - 1] in {'decltype', 'alignas', 'noexcept', '__attribute__', 'explicit'}:
                return None
            begin = index
            if 'operator' in rest[:index]:
                begin = rest.index('operator')
                if rest[index + 1:index + 3] == [')', '(']:
                    index += 2
            else:
                begin -= 1
            while begin >= 2 and rest[begin - 1] == '::':
                begin -= 2
            if begin < 0 or not is_word(rest[begin]):
                return None
            end = skip_pair(rest, index, '(', ')')
            constant = ' const' if rest[end:end + 1] == ['const'] else ''
            return f"{''.join(rest[begin:index])}({parameter_types(rest[index + 1:end - 1])}){constant}"
    return None


def variable_name(head):
    """The name of the inline variable that `head` declares, None if it declares none."""
    rest, _ = without_prefix(head)
    end = rest.index('=') if '=' in rest else len(rest)
    if 'inline' not in rest or 'static' in rest or '(' in rest[:end]:
        return None
    end = rest.index('[') if '[' in rest[:end] else end
    return rest[end - 1] if end and is_word(rest[end - 1]) else None


class Reader:
    """Collects the definitions of one file as (kind, full name, line)."""

    def __init__(self):
        self.definitions = []
        self.scopes = []  # (kind, name, open parentheses around it): 'namespace', 'unnamed', 'type', 'block', 'open' (extern "C")
        self.head = []
        self.head_line = 0
        self.parentheses = 0
        self.branches = []

    def visible(self):
        return all(scope[0] in ('namespace', 'type', 'open') for scope in self.scopes)

    def full_name(self, name):
        return '::'.join([scope[1] for scope in self.scopes if scope[1]] + [name])

    def in_namespace(self):
        return all(scope[0] in ('namespace', 'open') for scope in self.scopes)

    def add(self, kind, name, line):
        self.definitions.append((kind, self.full_name(name), line))

    def state(self):
        return list(self.scopes), list(self.head), self.parentheses

    def directive(self, text):
        word = re.match(r'#\s*(\w*)', text)[1]
        if word in ('if', 'ifdef', 'ifndef'):
            self.branches.append(self.state())
        elif word in ('else', 'elif') and self.branches:
            scopes, head, self.parentheses = self.branches[-1]
            self.scopes, self.head = list(scopes), list(head)
        elif word == 'endif' and self.branches:
            self.branches.pop()

    def scope_of(self, head, line):
        """What the brace after `head` opens: (kind, name). Notes what it defines."""
        if self.parentheses or (self.scopes and self.scopes[-1][0] == 'block'):
            return 'block', ''
        words = [token for token in head if token != 'inline']
        if words[:1] == ['namespace']:
            name = ''.join(words[1:])
            return ('namespace', name) if name else ('unnamed', '')
        if head == ['extern', '""']:
            return 'open', ''
        if (name := type_name(head)) is not None:
            if name and self.visible():
                self.add('type', name, line)
            return ('type', name) if name else ('block', '')
        if self.in_namespace():
            if (function := function_name(head)) is not None:
                self.add('function', function, line)
            elif (variable := variable_name(head)) is not None:
                self.add('variable', variable, line)
        return 'block', ''

    def read(self, code):
        for token, line in tokens_of(code):
            if token.startswith('#') and len(token) > 1:
                self.directive(token)
                continue
            if not self.head:
                self.head_line = line
            if token == '{':
                self.scopes.append((*self.scope_of(self.head, self.head_line if self.head else line), self.parentheses))
                self.parentheses = 0
                self.head = []
            elif token == '}':
                if self.scopes:
                    self.parentheses = self.scopes.pop()[2]
                self.head = []
            elif token == ';' and not self.parentheses:
                if self.in_namespace() and (variable := variable_name(self.head)) is not None:
                    self.add('variable', variable, self.head_line)
                self.head = []
            elif token == ':' and self.head[-1:] and self.head[-1] in ('public', 'private', 'protected'):
                self.head = []
            else:
                self.parentheses += (token == '(') - (token == ')')
                self.head.append(token)
        return self.definitions


def stands_in(file):
    """Whether `file` is built instead of others."""
    return bool(re.search(r'(_absent|_portable|(^|/)without_\w+)\.\w+$', file))


def second_definitions(files):
    """Sentences about names that more than one of `files` (name → code) defines."""
    places = defaultdict(dict)
    for file, code in files.items():
        if stands_in(file):
            continue
        for kind, name, line in Reader().read(code):
            places[kind, name].setdefault(file, line)
    return [f'{kind} {name} is defined in ' + ' and '.join(f'{file}:{line}' for file, line in sorted(where.items()))
            for (kind, name), where in sorted(places.items()) if len(where) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--root', type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument('folders', nargs='*', default=['src', 'apps'])
    options = parser.parse_args()
    files = {str(path.relative_to(options.root)): path.read_text(encoding='utf-8')
             for folder in options.folders for path in sorted((options.root / folder).rglob('*'))
             if path.suffix in ('.h', '.cpp', '.cu', '.cuh', '.inc')}
    findings = second_definitions(files)
    for finding in findings:
        print(finding)
    print(f'{len(files)} files, {len(findings)} second definitions')
    return 1 if findings or not files else 0


if __name__ == '__main__':
    sys.exit(main())
