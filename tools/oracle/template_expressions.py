"""Small templates for templates_oracle.py, each about one rule of Jinja or Python."""

VARIABLES = {
    "messages": [], "tools": None, "documents": None,
    "n": 7, "f": 2.5, "s": "Hello, World", "u": "Grüße ß 世界 ΑΣ", "e": "", "none": None, "t": True, "zero": 0, "big": 1e16, "tiny": 1e-5,
    "l": [3, 1, 2], "w": ["b", "A", "c"], "d": {"b": 1, "a": {"x": [1, "two", None, True, 1.0]}, "items": "entry"}, "nested": [[1, 2], [3, 4]],
    "people": [{"name": "Ann", "age": 3, "city": "X"}, {"name": "bob", "age": 1}, {"name": "Cy", "age": 2, "city": "x"}],
    "text": "line one\n  line two\r\nline three\n\n", "html": "<a href='x'>&\"</a>", "many": list(range(12)),
}

E1 = """n + 1|n - f|n * 2|n / 2|n // 2|-n // 2|n % 4|-n % 4|n ** 2|2 ** -1|f // 1|-f % 1|7.0|1e16|1e15|1e-4|1e-5|123456789.123456789|0.1 + 0.2|1/3
100000000000000000.0|5e-324|1.5e300|-0.0|1_000|0x1F|0b101|0o17|1.0e3|3 * 'ab'|'ab' * 0|[1] * 3|[1] + [2, 3]|(1,) + (2,)|t + t|t * 'x'|not n
1 < 2 < 3|1 < 3 < 2|1 == 1.0|t == 1|'a' < 'b'|[1, 2] < [1, 3]|(1, 2) == [1, 2]|'ell' in s|'x' not in s|3 in l|'a' in d|4 in (1, 4)|n if t else 0|n if e
e or 'fallback'|n and s|none or zero|s ~ n ~ f ~ none ~ t ~ missing|'a' 'b'|'\\n\\t\\x41\\u00e9\\101'|"it's"|[1, 'a', none, true, 1.5, "it's", 'q"', 'b\\\\', '\\n']
{'a': 1, 2: 'b', none: [()]}|(1,)|()|(1, 2)|{}|[]|d|l|s[0]|s[-1]|s[1:3]|s[::-1]|s[:-2]|s[5:100]|s[100:]|l[::2]|l[-2:]|l[5]|l[0]|d['b']|d.b|d.a.x[1]|d['items']
d.missing|missing|none.foo|n.foo|s.foo|l.foo|u[2]|u[::-1]|u|length|s|length|l|length|d|length|missing|length|e|length
s|upper|u|upper|u|lower|u|title|u|capitalize|s.upper()|s.lower()|s.title()|s.swapcase()|'  x '.strip()|'xxaxx'.strip('x')|'abc'.lstrip('ab')|s.split(', ')|'a b  c'.split()
'a b  c'.split(' ')|'a,b,c'.split(',', 1)|'a,b,c'.rsplit(',', 1)|' a b c '.split(none, 1)|' a b c '.rsplit(none, 1)|'a\\nb'.splitlines()|s.replace('l', 'L')|s.replace('l', 'L', 1)|'abc'.replace('', '-')
'abc'.replace('', '-', 2)|s.find('o')|s.rfind('o')|s.index('W')|s.count('l')|s.startswith('He')|s.endswith(('x', 'ld'))|s.startswith('l', 2)|', '.join(['a', 'b'])|s.partition(', ')|s.rpartition('zz')
'7'.zfill(3)|'-7'.zfill(4)|'a'.center(4, '*')|'ab'.center(5, '*')|'a'.ljust(3) ~ '|'|'a'.rjust(3)|'abc'.removeprefix('a')|'abc'.removesuffix('c')|'abc'.isalpha()|'12'.isdigit()|'a1'.isalnum()|' '.isspace()|'Ab'.istitle()|'ab'.islower()|'AB'.isupper()
u.encode|d.keys()|d.values()|d.items()|d.get('b')|d.get('zz')|d.get('zz', 5)|l.count(1)|l.index(2)|d.items()|list|d.keys()|list|l.append(1)|d.pop('b')|d.update({})|l.append|d.__class__|s.__class__.__mro__|s._x|l.sort()
'%s and %d' % ('a', 3)|'%5.2f|' % f|'%-5s|' % 'a'|'%05d' % 42|'%x %X %o' % (255, 255, 8)|'%e' % 12345.678|'%g' % 0.0001|'%r' % 'a'|'%%' % ()|'%(a)s' % {'a': 1}|'%s' % none|'%s' % [1]|'%d' % 3.9|'%c' % 65|'%+d' % 3|'%s'|format('x')|'%s %s' % 'a'
'{} {}'.format(1, 'a')|'{0} {1} {0}'.format(1, 2)|'{a}'.format(a=3)|'{:>5}|{:<5}|{:^5}'.format(1, 2, 3)|'{:05.1f}'.format(f)|'{:,}'.format(1234567)|'{!r}'.format('a')|'{0[0]} {1[b]}'.format(l, d)|'{:x}'.format(255)|'{:%}'.format(0.5)|'{:e}'.format(f)|'{{}}'.format()|'{:*^7}'.format('ab')|'{:.2}'.format('abc')|'{:+}'.format(5)|'{}'.format(none)|'{:d}'.format(f)
l|sort|l|sort(reverse=true)|w|sort|w|sort(case_sensitive=true)|people|sort(attribute='age')|map(attribute='name')|list|l|first|l|last|e|first|[]|last|l|min|l|max|l|sum|people|sum(attribute='age')|l|join('-')|l|join|people|join(', ', attribute='name')|l|reverse|list|s|reverse|w|unique|list|['a', 'A', 'b']|unique|list
d|dictsort|{'b': 2, 'A': 1}|dictsort|{'b': 2, 'a': 3}|dictsort(by='value')|{'b': 2, 'a': 3}|dictsort(reverse=true)|d|items|list|many|batch(5)|list|many|batch(5, 'x')|list|many|slice(5)|list|many|slice(5, 'x')|list|people|groupby('city', default='none')|list
people|map(attribute='city')|list|people|map(attribute='city', default='?')|list|w|map('upper')|list|['1', 'x']|map('int', 5)|list|people|selectattr('city')|list|people|selectattr('age', 'gt', 1)|map(attribute='name')|list|people|rejectattr('city', 'defined')|list|l|select('odd')|list|l|reject('odd')|list|l|select('in', [1, 2])|list|[0, 1, '']|select|list|nested|map('first')|list|nested|map(attribute=1)|list|nested|map(attribute='0')|list
d|tojson|d|tojson(indent=2)|d|tojson(separators=(',', ':'))|d|tojson(sort_keys=true)|u|tojson|u|tojson(ensure_ascii=true)|html|tojson|[1.0, 1e20, 1e-7, none, true]|tojson|{1: 2, none: 3, true: 4, 1.5: 6}|tojson|(1, 2)|tojson|[]|tojson(indent=2)|{'a': [], 'b': {}}|tojson(indent=4)|'\\x7f\\x01'|tojson|d|tojson(indent='--')|missing|tojson|l|map('string')|tojson|d.items()|tojson
'42'|int|'4.7'|int|'x'|int|'x'|int(5)|'0x1f'|int(base=16)|' 1_0 '|int|3.9|int|none|int|missing|int|'2.5'|float|'x'|float|'inf'|float|t|int|-3|abs|2.567|round|2.567|round(1)|2.5|round|3.5|round|2.1|round(0, 'ceil')|25|round(-1)|n|round|2.567|round(2, 'floor')|'1e3'|int|'1e3'|float
missing|default('x')|e|default('x')|e|default('x', true)|none|default('x')|none|default('x', boolean=true)|s|d('y')|s|replace('l', 'L')|n|replace('7', '8')|text|indent|text|indent(2, true)|text|indent(2, blank=true)|text|indent('> ')|'x'|center(5)|s|truncate(8)|s|truncate(8, true)|s|truncate(9, true, '', 0)|s|wordcount|html|escape|html|e|html|safe|html|safe + '<b>'|'<b>' + html|safe|html|forceescape|(html|safe) ~ '<'|n|string|l|string|s|trim|'  x '|trim|'xax'|trim('x')|s|list|s|attr('upper')|d|attr('b')|n|attr('x')
n is defined|missing is defined|missing is undefined|none is none|s is string|n is number|t is number|f is float|n is integer|t is integer|t is boolean|d is mapping|l is sequence|d is sequence|s is sequence|missing is sequence|d.items() is sequence|l is iterable|s is iterable|n is iterable|missing is iterable|n is odd|n is even|n is divisibleby 7|n is divisibleby(3)|n is eq 7|n is ne 7|n is gt 3|n is lt(3)|n is ge 7|n is sameas 7|t is true|t is false|n is true|none is sameas none|'abc' is lower|'ABC' is upper|n is in [7]|n is not in [7]|n is not none|range is callable|missing is callable|'upper' is filter|'odd' is test|'zz' is filter|s is escaped
range(5)|list|range(2, 10, 3)|list|range(5, 0, -2)|list|range(0)|list|range(100001)|range(3)|range(3)[1]|range(3)[-1]|range(3)|length|dict(a=1, b=2)|dict([('a', 1)])|dict(d, c=3)|namespace(a=1).a|joiner(', ')()|cycler('a', 'b').next()|strftime_now('%Y-%m-%d %H:%M:%S %j %A %B %b %p %I %y %% %f')|strftime_now('%d %b %Y')|raise_exception('no')
n + s|s + n|s + none|l + s|missing + 1|missing.foo|missing['a']|missing()|none + 1|none()|none[0]|n[0]|s['x']|d[[1]]|{[1]: 2}|1 / 0|1 // 0|1 % 0|1 < 'a'|none < 1|missing < 1|missing == missing|missing == none|1 in 2|1 in 'a'|'a' in missing|s()|-s|+s|-missing|n|nofilter|n is notest|l|length(1)|s.upper(1)|s.split('')|''.join([1])|','.join(missing)|int('3')|s|int(1, 2, 3)|loop
[1, 2][t]|'a' if none|('a' if none) is defined|1 if 0 else 2 if 1 else 3|not 1 == 2|1 + 2 ~ 3|1 ~ 2 + 3|2 * 3 ~ 4|-2 ** 2|2 ** 3 ** 2|1 - 1 - 1|- 1|abs|(1, 2, 3)[1]|[[1], [2]][1][0]|d.a['x'][4]|[1,2,]|{'a': 1,}|d.a.x.1|s|upper|lower|s|upper()|[x for x in l]"""

CODE = [
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% else %}none{% endfor %}", "{% for x in [] %}a{% else %}empty{% endfor %}",
    "{% for x in missing %}a{% else %}empty{% endfor %}", "{% for x in none %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}", "{% for x in many %}{% if x == 3 %}{% continue %}{% endif %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for a, b in nested %}{{ a + b }} {% endfor %}", "{% for a, b in l %}{% endfor %}", "{% for (a, b) in nested %}{{ a }}{% endfor %}", "{% for x in l recursive %}{{ x }}{% if loop.depth < 3 %}({{ loop([x]) }}){% endif %}{% endfor %}",
    "{% for x in l %}{{ loop([1]) }}{% endfor %}", "{% set a = 1 %}{% for x in l %}{% set a = a + x %}{{ a }};{% endfor %}{{ a }}", "{% set ns = namespace(a=0) %}{% for x in l %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }} {{ ns.b }}",
    "{% set d.b = 2 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{{ namespace(_x=1) }}", "{{ namespace(a=[1]) }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x, y = [1] %}", "{% set x = 1, 2 %}{{ x }}",
    "{% set b %}a{{ n }}\n{% endset %}[{{ b }}]", "{% set b | upper | trim %} abc {% endset %}[{{ b }}]", "{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}", "{% if missing %}a{% elif t %}b{% endif %}", "{% if n in l %}x{% endif %}y",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=1, a=5) }}{{ m() }}", "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ n }}{% endcall %}", "{% macro m() %}[{{ caller(1, b=2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}", "{% macro r(x) %}{{ x }}{% if x > 0 %}{{ r(x - 1) }}{% endif %}{% endmacro %}{{ r(3) }}", "{% macro r() %}{{ r() }}{% endmacro %}{{ r() }}",
    "{% macro m(a) %}{% set a = a ~ '!' %}{{ a }}{% endmacro %}{{ m('x') }}{{ a }}", "{{ m }}{% macro m() %}{% endmacro %}", "{% macro m() %}{% endmacro %}{{ m }}{{ m.name }}", "{% filter upper %}abc{{ n }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aca{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% print n, s %}", "{% block x %}in{{ n }}{% endblock %}", "{% block x %}in{% endblock x %}",
    "{% generation %}abc ü{% endgeneration %} x {% generation %}{{ n }}{% endgeneration %}", "{% for x in l %}é{% generation %}{{ x }}\n{% endgeneration %}{% endfor %}", "{% generation %}{% set zz = 1 %}{% endgeneration %}{{ zz }}",
    "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc", "a\n  {%+ if t +%}\n  b\n  {%+ endif %}\nc", "  {{ n }}  \n\n", "x {# c #} y\n  {# c #}\nz", "a {#- c -#} b", "{% raw %}{{ x }}{% y %}{% endraw %}\nb", "a\n  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "a\r\nb\r{{ n }}\n", "\n\n", "{{ '{{' }}{{ \"%}\" }}", "{{- n -}} x", "a  {{- n }} b\n{{ n -}}\n c", "{% if t %}\n\n x{% endif %}\n", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {'b': 1}} }}", "{%- set x = 1 -%}\n\n{{ x }}", "\t{% if t %}a{% endif %}\t\nb", "x{% if t %}\n  {% if t %}\n  y\n  {% endif %}\n{% endif %}z",
    "{% set g = l|select('odd') %}{{ g|list }}{{ g|list }}", "{% set g = l|map('nofilter') %}ok", "{{ l|map('nofilter') is iterable }}", "{{ (l|select)|length }}", "{{ (l|select)[0] }}", "{{ (l|reverse)|first }}", "{{ l|select|last }}", "{% set x = namespace(l=[]) %}{% for i in l %}{% set x.l = x.l + [i] %}{% endfor %}{{ x.l }}",
    "{% if false %}{{ x|from_json }}{% endif %}ok", "{% if true %}{{ n|from_json }}{% endif %}", "{{ n|from_json if false else 1 }}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% do l.append(1) %}", "{% unknown %}", "{% if %}{% endif %}", "{% if t %}", "{% endif %}", "{% for x %}{% endfor %}", "{{ n", "{% if t", "{# x", "{{ n } }", "{{ }}", "{{ 1 2 }}", "{{ a b }}", "{{ 'x }}", "{{ n | }}", "{{ n is }}", "{{ [1 }}", "{{ (1 }}", "{{ $ }}", "{% break %}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% call n %}{% endcall %}", "{{ f(a=1, 2) }}", "{{ f(a=1, a=2) }}", "{% else %}", "{% raw %}x",
    "{{ dict(**{'a': 1}) }}{{ range(*[1, 3])|list }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(*l, **{'z': 1}) }}", "{{ loop }}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}", "{% for x in range(3) %}{% set loop_x = loop %}{{ loop_x.index }}{% endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b{{ j() }}", "{{ x.y is defined }}", "{{ d.x.y is defined }}", "{{ d.x is defined and d.x.y }}", "{{ d['a']['x'][0] is defined }}", "{% if d.b is defined and d.b is not none and d.b == 1 %}yes{% endif %}",
    "{{ '' if true }}{{ 'x' if false }}", "{{ ('a', 'b')|join }}", "{{ messages|length }}{{ messages[0] is defined }}{{ messages[0].role }}", "{{ messages[-1] }}", "{{ messages[:1] }}", "{{ tools is none }}{{ tools is defined }}{{ documents }}", "{{ 'a' * 3 ~ 'b' }}{{ 'x' ~ 1 + 2 }}", "{{ 'a\\\nb' }}", "{{ 1.0 }}{{ 1. }}", "{{ 1if t else 2 }}", "{{ l.0 }}{{ nested.1.0 }}", "{{ 'a' in ['a'] and 'b' not in 'abc' }}", "{{ not t is false }}", "{{ 5 is odd and 4 is even }}", "{{ l is sequence and l is not mapping }}", "{{ s is string is true }}", "{{ n is divisibleby 7 and t }}",
    "{%- for m in people -%}\n{{ m.name }}\n{%- if not loop.last %}, {% endif -%}\n{%- endfor -%}", "{% for p in people|selectattr('age', 'ge', 2) %}{{ p.name }}{% if loop.last %}!{% endif %}{% endfor %}", "{{ people|map(attribute='name')|join(', ') }}", "{{ people[0].items()|list }}", "{% for k, v in people[0]|dictsort %}{{ k }}:{{ v }} {% endfor %}", "{% for k, v in people[0]|items %}{{ k }}:{{ v }} {% endfor %}",
    "{{ l.pop is defined }}{{ l.append }}", "{{ ''.__class__ }}", "{{ ''['__class__'] }}", "{{ (l|attr('__class__')) }}", "{{ range.__call__ }}", "{{ {'_x': 1}._x }}", "{{ {'__class__': 1}['__class__'] }}", "{{ '%s' % html|safe }}", "{% for i in range(2) %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}", "{{ caller }}{{ varargs }}", "{{ d.get('a').get('x')|length }}", "{{ d.items()|length }}{{ d.keys()|first }}", "{{ d.keys()|sort }}", "{{ d.values()|list|length }}", "{{ d|length }}{{ d|list }}", "{{ 'ab'|list|reverse|join }}", "{{ [1, [2, [3]]]|string }}", "{% set q = none %}{{ q[1:] }}", "{% set q = 5 %}{{ q[1:] }}", "{{ d[1:] }}", "{% set q = [1,2,3] %}{{ q[1:none] }}{{ q['a':] }}", "{{ [[1, 2], [3]]|sum(start=[]) }}", "{{ ['b', 'a']|sort|join(',') }}", "{{ [3, 'a']|sort }}", "{{ [none, 1]|sort }}", "{{ [{'a': 1}, {'a': 0}]|sort(attribute='a') }}", "{{ [2, 1]|max }}{{ ['b', 'A']|min }}{{ []|max }}", "{{ 'ΑΣ ΑΣΑ'|lower }}{{ 'ŉǆ'|upper }}{{ 'ﬁ'|capitalize }}", "{{ ['\\u200b', '\\xad', 'é', '\\x7f', '\\U0001f600', '\\ue000', '\\u0378'] }}",
]

# Chat templates of our own, with what published ones do.
CHATS = [
    """{%- for message in messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) and messages[0].role != 'system' %}
        {{- raise_exception('roles must alternate: ' ~ message['role']) }}
    {%- endif %}
    {{- '<|' + message.role + '|>\n' }}
    {%- if message.role == 'assistant' %}
        {% generation %}
        {{- message['content'] | trim + eos_token }}
        {% endgeneration %}
    {%- else %}
        {{- message.content | trim }}
    {%- endif %}
    {{- '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}
""",
    """{%- macro render(content) -%}
    {%- if content is string -%}
        {{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for part in content if part.type == 'text' -%}
            {{ part['text'] }}{% if not loop.last %} | {% endif %}
        {%- endfor -%}
    {%- else -%}
        [{{ content|tojson }}]
    {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=-1, tools=0) -%}
{%- for message in messages[::-1] -%}
    {%- set index = messages|length - 1 - loop.index0 -%}
    {%- if ns.last < 0 and message.role == 'user' -%}{%- set ns.last = index -%}{%- endif -%}
{%- endfor -%}
{{- bos_token if bos_token is defined and bos_token -}}
{%- if tools -%}
# Tools ({{ strftime_now('%d %B %Y') }})
{% for tool in tools %}
{{ loop.index }}. {{ tool.function.name }}: {{ tool.function.description|default('?', true) }}
{% for name, schema in tool.function.parameters.properties.items() %}
   - {{ '%-8s' % name }} {{ schema|tojson(separators=(',', ':')) }}{{ ' *' if name in tool.function.parameters.get('required', []) }}
{% endfor %}
{{ tool | tojson(indent=2) | indent(4) }}
{% endfor %}
{%- endif -%}
{%- for message in messages -%}
    {%- if message.tool_calls is defined and message.tool_calls -%}
        {%- for call in message.tool_calls -%}
            {%- set function = call.function if call.function is defined else call -%}
            {%- set ns.tools = ns.tools + 1 -%}
            <call n={{ ns.tools }}>{{ function.name }}({% for key, value in function.arguments|dictsort %}{{ key }}={{ value|string|upper if value is string else value }}{{ ', ' if not loop.last }}{% endfor %})</call>
        {%- endfor -%}
    {%- endif -%}
    {%- set text = render(message.content) -%}
    {%- if '</think>' in text -%}
        {%- set thinking = text.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') -%}
        {%- set text = text.split('</think>')[-1].lstrip('\n') -%}
        {%- if loop.index0 > ns.last %}[{{ thinking }}]{% endif -%}
    {%- endif -%}
    {%- if message.reasoning_content is string and loop.index0 > ns.last %}({{ message.reasoning_content }}){% endif %}
{{ message.role|title }}: {{ text.strip() }}
{% endfor %}
{%- if add_generation_prompt %}Assistant:{% if enable_thinking is defined and enable_thinking is false %} <think></think>{% endif %}{% endif %}
""",
]


def split(line):
    """Expressions with | between them: a part that does not stand alone belongs to the one before it, so every prefix is tried."""
    parts = line.split("|")
    for begin in range(len(parts)):
        for end in range(begin + 1, min(begin + 4, len(parts) + 1)):
            yield "|".join(parts[begin:end])


TEMPLATES = list(dict.fromkeys("{{ " + text + " }}" for line in E1.splitlines() for text in split(line))) + CODE
