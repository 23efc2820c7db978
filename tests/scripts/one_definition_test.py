#!/usr/bin/env python3
"""Tests one_definition.py on small sources."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from one_definition import second_definitions  # noqa: E402


def findings(*sources, names=()):
    return second_definitions({name: code for name, code in zip(list(names) or 'abcdef', sources)})


class SecondDefinition(unittest.TestCase):
    def refused(self, kind, name, *sources):
        self.assertEqual([finding.split(' is defined in ')[0] for finding in findings(*sources)], [f'{kind} {name}'])

    def accepted(self, *sources, names=()):
        self.assertEqual(findings(*sources, names=names), [])

    def test_names_both_places(self):
        self.assertEqual(findings('namespace n {\nstruct A {};\n}', 'namespace n {\n\n\nclass A final : public B<int> { int x; };\n}'),
                         ['type n::A is defined in a:2 and b:4'])

    def test_all_kinds_of_types(self):
        for first in ('struct A {};', 'class A { };', 'union A { int x; };', 'enum A { x };', 'enum class A : uint8_t { x, y };',
                      'struct alignas(64) A : B, C<int, 3> { int x{3}; };', 'class [[nodiscard]] A {};', 'template <class T, int n = (3)> struct A {};',
                      'template <typename T> requires (sizeof(T) > 1) class A {};', 'typedef struct A { int x; } B;'):
            self.refused('type', 'A', first, 'struct A { int other; };')

    def test_nested_namespaces_in_either_form(self):
        self.refused('type', 'a::b::A', 'namespace a::b { struct A {}; }', 'namespace a { int f() { return 1; } namespace b { struct A {}; } }')
        self.accepted('namespace a { struct A {}; }', 'namespace b { struct A {}; }', 'struct A {};')

    def test_classes_in_classes(self):
        self.accepted('struct A { struct Entry { int x; }; };', 'class B { public: struct Entry {}; };', 'struct Entry {};')
        self.refused('type', 'A::Entry', 'struct A { struct Entry; };', 'struct A::Entry { int x; };', 'struct A::Entry { };')

    def test_what_belongs_to_a_file(self):
        self.accepted('namespace n { namespace { struct A {}; } }', 'namespace n { namespace { struct A {}; } struct A {}; }')
        self.accepted('void f() { struct A {}; }', 'void g() { struct A {}; auto h = [] { struct A {}; }; }')
        self.accepted('static int f(int x) { return x; }', 'static int f(int x) { return -x; }')

    def test_declarations_are_none(self):
        self.accepted('struct A; enum class E : int; class A;', 'struct A {}; enum class E : int {};', 'struct A f(); A g(struct A x); friend class A;')
        self.accepted('struct A {};', 'struct A make() { return {}; }', 'struct A origin{1, 2}; enum E e = E{};')

    def test_branches_of_the_preprocessor(self):
        code = '#if X\nstruct A {\n#else\nstruct A : B {\n#endif\n  int x;\n};\nstruct C {};\n'
        self.accepted(code, 'struct D {};')
        self.refused('type', 'C', code, 'struct C {};')
        self.refused('type', 'A', code, 'struct A {};')

    def test_comments_and_literals(self):
        self.accepted('// struct A {};\n/* struct A {}; */ const char* s = "struct A {}; {{{";', "struct A {}; char c = '{', d = '\\'';",
                      'auto r = R"x(} struct A { )" )x"; int n = 1\'000; struct B {};')
        self.refused('type', 'B', 'auto r = R"x(} struct A { )" )x"; int n = 1\'000\'000; struct B {};', 'struct B {};')

    def test_functions_and_variables(self):
        self.refused('function', 'n::f(int)', 'namespace n { inline int f(int a) { return a; } }', 'namespace n { inline int f(int b = 3) { return -b; } }')
        self.accepted('inline int f(int a) { return a; }', 'inline int f(double a) { return 1; }', 'inline int f(int);')
        self.refused('variable', 'kSize', 'inline constexpr int kSize = 3;', 'inline constexpr int kSize{4};')
        self.accepted('constexpr int kSize = 3;', 'constexpr int kSize = 4;')
        self.accepted('template <> int f<int>() { return 1; }', 'template <> int f<long>() { return 1; }')

    def test_specializations(self):
        self.accepted('template <class T> struct A {};', 'template <> struct A<int> {};', 'template <class T> struct A<T*> {};')
        self.refused('type', 'A<int>', 'template <> struct A<int> {};', 'template <> struct A<int> { int x; };')

    def test_files_that_stand_in_for_others(self):
        self.accepted('struct A {}; int f() { return 1; }', 'struct A {}; int f() { return 0; }', names=('x/mpi.cpp', 'x/mpi_absent.cpp'))
        self.accepted('struct A {};', 'struct A {};', names=('x/mpi.cpp', 'x/without_mpi.cpp'))

    def test_code_after_a_type_is_read(self):
        self.refused('type', 'n::B', 'namespace n { struct A { A() : x{1}, y(2) { if (x) { y = 3; } } int x, y; } a{1}; struct B {}; }', 'namespace n { struct B {}; }')
        self.refused('type', 'B', 'void f(std::vector<int> x = {1, 2}, int y = g([] { return 1; })) { while (y) {} }\nstruct B {};', 'struct B {};')


if __name__ == '__main__':
    unittest.main()
