"""cases.py: renders small templates with Jinja as transformers sets it, and writes templates and results to cases.json."""
import datetime, json, jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = r'''
{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 6 / 3 }}
{{ 1.0 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456.789 }} {{ 0.1 + 0.2 }} {{ 1_000 }} {{ 10 ** 15 * 1.0 }} {{ 1.5e300 * 1e10 }} {{ -0.0 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'a' 'b' }} {{ "it's" }} {{ 'tab\tnew\\n\u00e9\x41' }}
{{ [1, 'a', none, true, 1.5, [2], {'k': 'v'}, (1,), (1, 2), ()] }}
{{ ["it's", 'say "x"', 'both \' and "', 'line\n', 'é', '\x00', '\u200b'] }}
{{ {'a': 1, 'b': [1, 2]} | tojson }} {{ {'a': 1, 'b': [1, {}], 'c': []} | tojson(indent=2) }}
{{ {'b': 1, 'a': 'é"\n<'} | tojson(sort_keys=true) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }}
{{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }} {{ 1e100 | tojson }} {{ (1, 2) | tojson }} {{ '\x7f\x01</script>' | tojson }}
{{ undefined_name }}|{{ undefined_name is defined }}|{{ undefined_name | length }}|{{ undefined_name | default('d') }}|{{ '' | default('d', true) }}
{{ undefined_name.x }}
{{ undefined_name[0] }}
{{ undefined_name + 1 }}
{{ undefined_name() }}
{{ undefined_name | tojson }}
{{ none.x }}|{{ 'a'.x }}|{{ 1 .x }}
{% for x in undefined_name %}a{% else %}none{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1] == [1] }} {{ none == false }}
{{ 1 <= 1.0 }} {{ 1 < 1.0 }} {{ 1.0 >= 1 }} {{ 9007199254740993 == 9007199254740992 }} {{ 9007199254740993 > 9007199254740992 }}
{{ ('nan'|float) <= 1 }} {{ 1 >= ('nan'|float) }} {{ ('nan'|float) == ('nan'|float) }}
{{ 9007199254740993 == 9007199254740992.0 }} {{ 9007199254740993 > 9007199254740992.0 }} {{ [9007199254740993, 9007199254740992.0]|sort }} {{ 2 < 'inf'|float }} {{ 1 == true }} {{ 0.5 < true }}
{{ 1 < 'a' }}
{{ 1 in [1, 2] }} {{ 'b' in 'abc' }} {{ 'k' in {'k': 1} }} {{ 3 not in [1] }} {{ not 1 in [1] }} {{ 'x' in undefined_name }}
{{ 1 in 'abc' }}
{{ 1 if true else 2 }} {{ 1 if false }} {{ 'a' if 0 else 'b' if 0 else 'c' }} {{ (1 or 2) and 3 }} {{ 0 or '' or 'x' }} {{ none and 1 }} {{ not none }}
{{ 'abcdef'[1:3] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[:-2] }} {{ 'abcdef'[::2] }} {{ [1, 2, 3][1:] }} {{ [1, 2, 3][-1] }} {{ 'é😀'[1] }} {{ 'abc'[5:] }} {{ 'abc'[3:0:-1] }} {{ 'abc'[10::-1] }} {{ [1,2,3][none:2] }}
{{ [1, 2][5] }}|{{ [1, 2][5] is defined }}|{{ 'abc'[7] }}
{{ {'items': 1}.items is callable }}
{{ {'items': 1}['items'] }} {{ {'a': 1}['items'] is callable }} {{ {'a': {'b': 2}}.a.b }} {{ {'a': 1}.get('b') }} {{ {'a': 1}.get('b', 3) }} {{ {1: 2}[1] }}
{{ {'a': 1, 'b': 2}.items() | list }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }}
{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xxaxx'.rstrip('x') }}|{{ 'a,b,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ 'a  b c'.split(none, 1) }}
{{ 'Hello world'.upper() }} {{ 'Hello'.lower() }} {{ 'hello wORLD it\'s'.title() }} {{ 'hELLO'.capitalize() }} {{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'aXbX'.replace('X', '-') }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'a\nb\n'.splitlines() }} {{ '-'.join(['a', 'b']) }} {{ 'aaa'.count('a') }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ '12'.isdigit() }} {{ 'a1'.isalpha() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ '7'.zfill(3) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3) }} {{ 'a'.center(4) }}| {{ 'a-b'.partition('-') }} {{ 'abcb'.rfind('b') }} {{ 'x'.index('x') }}
{{ '%s is %d and %.2f%%' % ('a', 3, 1.5) }} {{ '%r' % 'a' }} {{ '%s' | format('x') }}
{{ '{} {} {a} {{}}'.format(1, 2, a=3) }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ [1] + [2] }} {{ '%03d' % 7 }}
{{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort }} {{ [3, 1] | sort(reverse=true) }} {{ {'b': 1, 'a': 2} | dictsort }} {{ [{'n': 2}, {'n': 1}] | sort(attribute='n') }} {{ {'b': 1, 'a': 2} | dictsort(false, 'value') }}
{{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ [] | first }}| {{ [1, 2] | join('-') }} {{ [{'a': 1}, {'a': 2}] | join(',', attribute='a') }} {{ [1, 2] | sum }} {{ [1, 5, 3] | max }} {{ [4, 2] | min }} {{ 'abc' | list }} {{ [1, 1, 2, 'a', 'A'] | unique | list }} {{ [1, 2] | reverse | list }} {{ 'abc' | reverse }}
{{ [{'a': 1}, {'a': 2}, {}] | map(attribute='a') | list }} {{ ['a', 'b'] | map('upper') | list }} {{ [{'a': 1}, {'a': 0}] | selectattr('a') | list }} {{ [{'a': 1}, {'a': 2}] | selectattr('a', 'equalto', 2) | list }} {{ [{'a': 1}, {'a': 2}] | rejectattr('a', 'eq', 2) | list }} {{ [1, 2, 3] | select('odd') | list }} {{ [0, 1, none] | reject | list }} {{ [{'f': {'n': 1}}] | map(attribute='f.n') | list }}
{{ '3' | int }} {{ 'x' | int }} {{ '3.7' | int }} {{ 3.9 | int }} {{ '1.5' | float }} {{ -3 | abs }} {{ 2.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ true | int }}
{{ 'a\nb' | indent(2) }} {{ 'a\n\nb' | indent(2, true) }} {{ 'a b' | wordcount }} {{ ' a ' | trim }} {{ 'xax' | trim('x') }} {{ 'hello wORLD' | title }} {{ 'hELLO' | capitalize }} {{ 'a' | upper }} {{ 5 | string + 'x' }} {{ 'aXb' | replace('X', 'Y') }} {{ '<a&"' | e }} {{ '<' | safe + '>' }}
{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1.5 is float }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ {} is sequence }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ none is none }} {{ true is true }} {{ 1 is true }} {{ false is boolean }} {{ 4 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 1 is in [1] }} {{ 1 is sameas 1 }} {{ 'a' is eq 'a' }} {{ 1 is not string }} {{ undefined_name is iterable }} {{ undefined_name is none }} {{ 'ab' is lower }} {{ 'Ab' is upper }} {{ range is callable }}
{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.length }}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}|{{ loop.nextitem }};{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'ab' %}{{ c }}-{% endfor %}
{% for i in range(6) if i % 2 %}{{ i }}{{ loop.index }}{% endfor %}{% for i in [] %}x{% else %}empty{% endfor %}{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b=[]) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}
{% set d = {} %}{% set d.x = 1 %}
{% set l = [1] %}{{ l.append(2) }}
{% set x %}a{{ 1 }}b{% endset %}{{ x }}{% set y | upper %}abc{% endset %}{{ y }}{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% macro m(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m(1) | length }}{{ m() }}
{% macro m(a) %}{{ caller() }}{{ a }}{% endmacro %}{% call m(1) %}body{% endcall %}
{% macro outer(x) %}{{ y }}{{ x }}{% endmacro %}{% set y = 3 %}{% for i in [7] %}{% set y = 4 %}{{ outer(i) }}{% endfor %}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro f() %}{{ i }}{% endmacro %}{% for i in [1] %}{{ f() }}{% endfor %}|
{% filter upper %}abc{{ 1 }}{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}
{% for i in [1, [2, [3]]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}
{% raw %}{{ x }}{% if %}{% endraw %}|{% raw -%}  a  {%- endraw %}|
{# a comment #}a{#- another -#} b
  {% if true %}  
    x
  {% endif %}  
y
a  {%- if true -%}  b  {%- endif -%}  c
a {{- 1 -}} b {{ 2 }} c
  {%+ if true %}x{% endif %}
{% if true +%}
x{% endif %}
{{ raise_exception('no') }}
{{ strftime_now('%d %b %Y %H:%M:%S %A %B %-d %j %p %I') }}
{{ dict(a=1, b=2) }} {{ namespace(a=1).a }} {{ range(1, 10, 3) | list }} {{ range(3, 0, -1) | list }} {{ range(2) | list }}
{{ 1 | nosuchfilter }}
{{ 1 is nosuchtest }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{% if false %}{{ undefined_name.x }}{% elif 0 %}b{% else %}c{% endif %}
{{ [1, 2, 3] | length }}{{ {'a': 1} | length }}{{ 'é' | length }}
{{ none | length }}
{{ [[1, 2], [3]] | map('first') | list }} {{ [1, 2] | map('string') | join }} {{ ['a', none] | select('none') | list }}
{{ "a" if "x" is defined and not false }}{{ not undefined_name is defined }}{{ 1 + 1 is even }}{{ 2 * 3 | string }}
{{ {'a': none} | items | list }} {{ undefined_name | items | list }}
{{ 'x' | items | list }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 | abs }} {{ 10 - 3 - 2 }} {{ 'a' ~ (1 + 2) }} {{ 1 ~ 2 * 3 }}
{{ 'a' ~ 1 + 2 }}
{{ messages[0].content }} {{ messages[0]['role'] }} {{ messages | length }} {{ messages[1:] }} {{ messages[0] | tojson }} {{ messages }}
{% set messages = messages + [{'role': 'x'}] %}{{ messages | map(attribute='role') | join(',') }}
{{ (1, 2) + (3,) }} {{ (1, 2) == [1, 2] }} {{ [1, 2] in [[1, 2]] }} {{ 'a' in ('a', 'b') }}
{{ [1, 2, 3].index(2) }} {{ [1, 1].count(1) }} {{ {'a': 1}.copy() }}
{{ true and 'yes' }} {{ none }} {{ True }} {{ None }} {{ False or 'no' }}
{{ "\"quoted\" \z" }} {{ 'a\
b' }}
{{ [1.0, 2.50, 1e22, 1.0e-7] }} {{ 3 * 1.1 }} {{ 7.0 // 2 }} {{ 3 * 'a' }} {{ 2 * [1] }} {{ ('<' | safe + '<') }} {{ ('<' + '>' | safe) }} {{ 'a' | safe ~ '<' }} {{ 5.5 % 2 }} {{ 100000000000000000000.0 }}
{{ x is defined and x }}{{ x is not defined or x }}{% if not x %}no{% endif %}
{{ namespace(a=1) is mapping }} {{ namespace() is defined }}
{{ [] or 'empty' }} {{ {} or 'empty' }} {{ '0' and 'nonempty' }} {{ 0.0 or 'zero' }}
{{ 'a' + 1 }}
{{ [1] + 1 }}
{{ {'a': 1} + {} }}
{{ {[1]: 1} }}
{{ 'abc'.nosuch() }}
{% break %}
{% if %}
{{ 1 + }}
{{ 'abc }}
{% for x %}{% endfor %}
{% endif %}
{% if true %}
{% nosuch %}
{{ a b }}
{{ 1 is }}
{% macro m() %}
{{ (1, 2 }}
{# no end
{{ 5.0 | tojson }} {{ [1, [2, 3]] | tojson(indent=1) }} {{ {} | tojson(indent=2) }} {{ {'a': []} | tojson(indent=0) }}
{{ 'ß'.upper() | length > 0 }} {{ 'é'.upper() }} {{ 'İ' | length }}
{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list | first }} {{ messages | rejectattr('role', '==', 'user') | list | length }}
{{ messages | tojson(indent=2) }}
{{ {'a': 1}[nope] is defined }} {{ {'a': 1}.get(nope) }} {{ {'a': 1}.get(nope, 5) }} {{ nope in {'a': 1} }} {{ nope in [1] }} {{ {nope: 3}[nope] }} {{ {'a': 1}[[1]] is defined }} {{ {'a': 1}[{}] is defined }} {{ {'a': 1}[('a', 1)] is defined }}
{{ [1, 2][true] }} {{ 'ab'[false] }} {{ [1, 2][nope] is defined }} {{ [1, 2][none] is defined }} {{ [1, 2]['a'] is defined }} {{ [1, 2][1.0] is defined }} {{ [1, 2][[0]] is defined }} {{ 'ab'[nope] is defined }} {{ none[nope] is defined }} {{ 5[[1]] is defined }} {{ {true: 'x'}[1] }} {{ [1, 2, 3][true:] }}
{{ {(1, 2): 'a', (1, 2.0): 'b'} }} {{ {(1, 'x'): 'a'}[(1, 'x')] }} {{ {(): 1}[()] }} {{ (1, 2) in {(1, 2): 3} }} {{ {((1,), 2): 3}[((1,), 2)] }} {{ {(1, (2,)): 3}[((1,), 2)] is defined }} {{ {range: 1}[range] }} {{ {none: 1}[none] }}
{{ {'a': 1}.get([1]) }}
{{ [1] in {'a': 1} }}
{{ {} in {'a': 1} }}
{{ ([1],) in {'a': 1} }}
{{ nope in 'abc' }}
{{ 1 in none }}
{{ [1, 2][nope:] }}
{{ {([1],): 1} }}
{{ {(1, 2): 3} | tojson }}
{{ {nope: 3} | tojson }}
{{ nope[nope] }}
{{ [[1], [1]] | unique | list }}
{{ [1, nope, nope, none, (1, 2), (1, 2)] | unique | list | length }}
{{ dict(a=1)['a'] }} {{ {'a': {'type': ['string', 'null']}}[nope] is mapping }} {{ {'string': 's'}[['string', 'null']] | default('none') }} {{ namespace(a=1)[nope] is defined }} {{ range(3)[true] }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | batch(2, 'x') | list }} {{ [1, 2, 3] | batch(0) | list }} {{ [] | batch(3, 1) | list }} {{ 'abcde' | batch(2) | map('join') | list }} {{ [1, 2] | batch(linecount=3, fill_with=0) | list }} {{ [1, 2] | batch(-1, 0) | list }} {{ nope | batch(2) | list }} {{ {'a': 1, 'b': 2} | batch(1) | list }} {{ [1] | batch(3, none) | list }}
{{ [1, 2] | batch }}
{{ 5 | batch(2) | list }}
{{ [1, 2, 3, 4, 5] | slice(3) | list }} {{ [1, 2, 3, 4, 5] | slice(3, 'x') | list }} {{ [1, 2, 3, 4] | slice(2, 'x') | list }} {{ [1] | slice(3) | list }} {{ [] | slice(2, 0) | list }} {{ [1, 2] | slice(-1) | list }} {{ 'abcdefg' | slice(slices=2, fill_with='-') | list }} {{ nope | slice(2) | list }}
{{ [1] | slice(0) | list }}
{{ [1] | slice }}
{{ [{'c': 'b', 'n': 1}, {'c': 'a', 'n': 2}, {'c': 'B', 'n': 3}] | groupby('c') | list }} {% for k, g in [{'c': 'b', 'n': 1}, {'c': 'a', 'n': 2}, {'c': 'B', 'n': 3}] | groupby('c') %}{{ k }}:{{ g | map(attribute='n') | join(',') }};{% endfor %} {% for g in [{'c': {'d': 2}}, {'c': {'d': 1}}, {'c': {'d': 2}}] | groupby('c.d') %}{{ g.grouper }}={{ g.list | length }}{{ g[0] }}{{ g['list'] | length }};{% endfor %}
{{ [{'c': 'b'}, {'c': 'B'}, {}] | groupby('c', default='a', case_sensitive=true) }} {{ [[1, 'x'], [0, 'y'], [1, 'z']] | groupby(0) }} {{ [] | groupby('a') }} {{ [{'a': true}, {'a': 1}, {'a': 1.0}] | groupby('a') | length }} {{ [{}] | groupby('a') | length }} {{ messages | groupby('role') | map('first') | list }}
{{ [{'a': 1}, {}] | groupby('a') }}
{{ [{'a': 1}, {'a': 'b'}] | groupby('a') }}
{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, false, '...', 0) }} {{ 'foobarbazquxquux' | truncate(8) }} {{ 'foo bar baz qux' | truncate(5, end='', leeway=0) }}| {{ 'a b' | truncate }} {{ nope | truncate(3) }} {{ '日本語テキスト長い' | truncate(3, true, '…', 0) }} {{ 'foo bar  baz' | truncate(9, leeway=0) }}
{{ 'foo bar baz qux' | truncate(2) }}
{{ 'foo bar baz qux' | truncate(5, leeway=-1) }}
{{ 'the quick brown fox jumps over the lazy dog' | wordwrap(10) }}|{{ 'a\n\nbb cc' | wordwrap(2) }}|{{ 'abcdefghij kl' | wordwrap(4) }}|{{ 'abcdefghij kl' | wordwrap(4, false) }}|{{ 'a well-known fact-of-life x-y' | wordwrap(7) }}|{{ 'a well-known fact-of-life' | wordwrap(7, break_on_hyphens=false) }}|{{ 'a b c d' | wordwrap(3, wrapstring='<br>') }}|{{ 'this--or that---is 1-2-3 --option a--b' | wordwrap(5) }}|{{ '' | wordwrap }}|{{ '   ' | wordwrap(2) }}|{{ '  lead and trail  ' | wordwrap(6) }}
{{ 'x' | wordwrap(0) }}
{{ 'ab-cd-ef ab-cd' | wordwrap(1) }}|{{ '----------' | wordwrap(3) }}|{{ 'a------b' | wordwrap(4) }}|{{ 'a-b-c-d-e-f' | wordwrap(3) }}|{{ 'ab-c-de-f' | wordwrap(4) }}|{{ "don't--stop" | wordwrap(4) }}|{{ 'x\ty\tz' | wordwrap(3) }}|{{ 'e\u00e9-\u00e9e z' | wordwrap(4) }}|{{ 'a\rb\x0bc' | wordwrap(9) }}|{{ 'one two-' | wordwrap(5) }}|{{ 'abc-defghijk' | wordwrap(6) }}
{{ 'a b/c?d=é&e~_.-' | urlencode }} {{ {'a b': 1, 'c/d': 'é ü'} | urlencode }} {{ [('x', none), ('y', true)] | urlencode }} {{ 5 | urlencode }} {{ nope | urlencode }}| {{ none | urlencode }} {{ '日' | urlencode }} {{ [] | urlencode }}| {{ ['ab', 'cd'] | urlencode }} {{ '%+"<>' | urlencode }}
{{ ['abc'] | urlencode }}
{{ 'aBc é'.swapcase() }} {{ 'AbC'.casefold() }} {{ 'Hello World'.istitle() }} {{ 'Hello world'.istitle() }} {{ ''.istitle() }} {{ 'ab_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'a\n'.isprintable() }} {{ 'é'.isascii() }} {{ ''.isascii() }} {{ 'a\tb\n\tc'.expandtabs() }} {{ 'a\tb'.expandtabs(4) }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.rpartition('-') }} {{ 'abcb'.rindex('b') }} {{ 'a\r\nb\rc\x0bd\u2028e\n\n'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ ''.splitlines() }}
{{ 'abc'.rindex('z') }}
{{ 'a'.center(4, 'xy') }}
{{ 'ab' | center(7) }}| {{ 'ab' | center(6) }}| {{ 'abc' | center(6) }}| {{ 'a' | center | length }} {{ 'abcdef' | center(2) }} {{ 'abc'.center(6, '*') }} {{ 'ab'.center(5, '*') }}
{{ 0 | filesizeformat }} {{ 1 | filesizeformat }} {{ 999 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 1500000 | filesizeformat }} {{ '3000' | filesizeformat }} {{ 1e30 | filesizeformat }} {{ 5.5 | filesizeformat }} {{ 2 ** 40 | filesizeformat(binary=true) }} {{ 999999 | filesizeformat }} {{ -5 | filesizeformat }} {{ true | filesizeformat }}
{{ 'a' | filesizeformat }}
{{ none | filesizeformat }}
{{ {'class': 'a', 'id': none, 'x': nope, 'n': 3, 'q': '<"'} | xmlattr }}|{{ {'a': 1} | xmlattr(false) }}|{{ {} | xmlattr }}|{{ {'a': 1, 'b': 2} | xmlattr(autospace=false) }}
{{ {'a b': 1} | xmlattr }}
{{ {'a>': 1} | xmlattr }}
{{ '<p>a <b>bold</b>\n  &amp; &lt;x&gt; &#39;q&#39;</p> <!-- c <i> --> z' | striptags }}|{{ 'a < b' | striptags }}|{{ '<!<!-- a -->-- b -->c' | striptags }}|{{ ('<b>x</b>' | safe) | striptags }}|{{ 5 | striptags }}
{{ '<a>' | forceescape }} {{ ('<a>' | safe) | forceescape }} {{ ('<a>' | e) | forceescape }} {{ ('<a>' | e) | e }}
{{ 'a' is escaped }} {{ ('a' | e) is escaped }} {{ [1, 2, 3] | select('>', 1) | list }} {{ [1, 2, 3] | select('!=', 2) | list }} {{ [1, 2, 3] | reject('<=', 2) | list }} {{ [1, 2] | select('<', 2) | list }} {{ [1, 2] | select('>=', 2) | list }} {{ [1, 2] | select('ge', 2) | list }} {{ 2 is gt 1 }} {{ 2 is lessthan 3 }} {{ 2 is ne 2 }}
{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% if c.reset() %}{% endif %}{{ c.current }}{% set j = joiner() %}{{ j() }}1{{ j() }}2{{ j() }}3{% set k = joiner('|') %}{{ k() }}a{{ k() }}b
{{ cycler() }}
{{ [] | random is defined }} {{ ['a'] | random }} {{ 'x' | random }}
{{ [{'a': 2, 'b': 1}, {'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b') }} {{ ['b', 'A', 'a', 'B'] | sort(case_sensitive=true) }} {{ [{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b', reverse=true) }} {{ ['a', 'B'] | max }} {{ ['a', 'B'] | min(case_sensitive=true) }} {{ [] | max is defined }} {{ [{'n': 1}, {'n': 3}] | max(attribute='n') }}
{{ '0x1F' | int(0, 16) }} {{ '101' | int(base=2) }} {{ '1_000' | int }} {{ ' 42 ' | int }} {{ '-7' | int }} {{ 'z' | int(-1) }} {{ '0b11' | int(base=0) }} {{ 'inf' | float }} {{ '1e3' | float }} {{ '1e3' | int }} {{ none | int(5) }} {{ [] | int(3) }} {{ 'x' | float(1.5) }} {{ '' | int }} {{ 'inf' | int(9) }}
{{ 1234.5678 | round(2) }} {{ 1234.5 | round(-2) }} {{ 5 | round }} {{ 5 | round(1) }} {{ -2.5 | round }} {{ 0.5 | round }} {{ 2.675 | round(2) }} {{ 1.25 | round(1) }} {{ 42.55 | round(1, 'floor') }} {{ 5 | round(0, 'ceil') }} {{ true | round }}
{{ 1 | round(0, 'x') }}
{{ [1, [2]] | sum(start=[]) }}
{{ [[1], [2]] | sum(start=[]) }} {{ [{'a': 1}, {'a': 2.5}] | sum(attribute='a', start=1) }} {{ [] | sum }}
{{ 'a b_c-d 1' | wordcount }} {{ "it's a dog" | wordcount }} {{ 'hello world-wide (web) {x} [y] <z>' | title }} {{ 'it\'s' | title }} {{ 'a1b' | title }} {{ 'ÀB' | title }}
{{ 'a\r\nb\x0cc' | indent }} {{ 'a\nb' | indent('>> ', true) }} {{ 'a\n\nb\n' | indent(1, blank=true) }}| {{ '' | indent(2, true) }}|
{{ (1, 2) | tojson }} {{ {'b': 1, 'a': [1, {'c': 2}]} | tojson(indent=2, sort_keys=true) }} {{ [] | tojson(indent=2) }}
{{ [1, 2, 3] | map('multiply', 2) | list }}
{{ [{'a': 1}, {}] | map(attribute='a', default=0) | list }} {{ [{'a': {}}] | map(attribute='a.b', default='x') | list }} {{ ['a', 'b'] | map('replace', 'a', 'c') | list }} {{ [1.55, 2.5] | map('round', 1) | list }} {{ ['  a '] | map('trim') | join }}
{{ {'a': 1} | attr('a') is defined }} {{ {'a': 1} | attr('items') is callable }} {{ 'x' | attr('upper') is callable }}
{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}
{{ {'b': 1} | dictsort(by='x') }}
{{ (1, 2) | first }} {{ 'abc' | last }} {{ {'a': 1} | first }} {{ {'a': 1, 'b': 2} | last }} {{ {'a': 1, 'b': 2} | reverse | list }} {{ (1, 2) | reverse | list }} {{ nope | first is defined }} {{ nope | join }}| {{ [1, none, nope] | join(',') }} {{ 'abc' | join('-') }} {{ {'a': 1} | join }}
{{ '%s %s' | format('a', 'b') }} {{ '%(a)s-%(b)d' | format(a=1, b=2) }} {{ '%5s|%-5s|%05.1f|%x|%X|%o|%e|%g|%c' | format('a', 'b', 3.14159, 255, 255, 8, 12345.678, 0.5, 'z') }} {{ '%+d % d' | format(5, 6) }} {{ '%(a)s' % {'a': 'b'} }}
{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{!r}|{0.a}' | length }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}'.format('a', 'b', 'c', 42, 3.14159) }} {{ '{!r} {x[a]} {:,}'.format('q', 1234567, x={'a': 3}) }}
{{ -5 | abs }} {{ 5.5 | abs }} {{ true | abs }} {{ '<a href="x">' | e }} {{ 'a' | default('b') }} {{ none | default('b') }} {{ none | default('b', true) }} {{ nope | d }}| {{ [] | default('x', boolean=true) }}
{{ 'a' | abs }}
{{ 'x' is filter }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'groupby' is filter }} {{ 'batch' is filter }} {{ nope is filter }}
{{ 'aXa' | replace('a', 'b', 1) }} {{ 'aaa' | replace('a', 'b', count=2) }} {{ 1 | string is string }} {{ ('<' | e) | string is escaped }} {{ 'abc' | list | reverse | join }} {{ none | string }} {{ true | upper }} {{ 5 | lower }} {{ 'a-b' | replace('-', 1) }}
{{ '{:+d} {: d} {:x} {:#x} {:#b} {:o} {:c} {:,} {:_x}'.format(5, 6, 255, 255, 5, 8, 65, 1234567, 65535 * 65536) }} {{ '{:e} {:.3g} {:g} {:G} {:%} {:.1%}'.format(12345.678, 1234.5, 1e20, 1e-7, 0.5, 0.123) }} {{ '{:*^7}|{:>4}|{:0=+6d}|{:<05}|{:.2}|{:.2}'.format('a', 'b', 7, 1, 'abc', 3.14159) }} {{ '{:{}}|{:{w}.{p}f}'.format('a', 4, 2.5, w=7, p=2) }}
{{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x.y} {x[y]} {0[1]}'.format([1, 2], x={'y': 'z'}) }} {{ '{!s:>4}|{!r:>5}'.format('a', 'b') }} {{ '{}'.format(none) }} {{ '{}'.format(true) }} {{ '{:d}'.format(true) }} {{ '{:}'.format([1]) }}
{{ '{0}{}'.format(1, 2) }}
{{ '{:d}'.format('a') }}
{{ '{:s}'.format(1) }}
{{ '{:>5}'.format([1]) }}
{{ '{:,d}'.format('a') }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '%-6s|%6s|%.2s|%+d|% d|%06.2f|%x|%#X|%o|%e|%g|%5.1f%%|%c%c|%i|%u' % ('ab', 'cd', 'efg', 5, 6, 3.14159, 255, 255, 8, 1.5, 1e-7, 99.5, 'q', 65, 7.9, 8) }} {{ '%*d|%-*d|%.*f' % (4, 5, 4, 6, 1, 2.55) }} {{ '%(a)5s|%(b)03d' % {'a': 'x', 'b': 7} }} {{ 'no' % {} }} {{ 'no' % [1] }}
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ 'no' % 5 }}
{{ '%z' % 5 }}
{{ '%(a)s' % 5 }}
{{ '%' % 5 }}
{% set o = {'type': ['array', 'null'], 'items': {'type': 'string'}} %}{{ {'string': 'str', 'array': 'list'}[o.type] | default('?') }} {{ {'string': 'str'}[o['items'].type] }} {{ o.type in ['array'] }} {{ o.nothing in ['array', 'object'] }} {{ o.nothing in {'array': 1} }}
'''

CONTEXT = {
    "messages": [{"role": "user", "content": "Hi, it's <me>\n\"you\""}, {"role": "assistant", "content": "日本"}],
    "bos_token": "<s>", "add_generation_prompt": True,
}

def env():
    e = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    def fail(m):
        raise jinja2.exceptions.TemplateError(m)
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = fail
    e.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)
    return e

def templates():
    """Lines, save that those indented or behind an open tag belong to the one before."""
    one = []
    for line in TEMPLATES.strip("\n").split("\n"):
        whole = "\n".join(one)
        goes_on = line in ("    x", "  {% endif %}  ", "y", "x{% endif %}", "b' }}")
        if one and not goes_on:
            yield whole
            one = []
        one.append(line)
    yield "\n".join(one)

cases = []
for t in templates():
    case = {"template": t}
    try:
        case["want"] = env().from_string(t).render(**CONTEXT)
    except Exception as x:
        case["error"] = type(x).__name__ + ": " + str(x)
    cases.append(case)
with open("cases.json", "w") as f:
    json.dump({"context": CONTEXT, "cases": cases}, f, ensure_ascii=False, indent=1)
    f.write("\n")
