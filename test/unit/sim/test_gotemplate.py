# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Templates of stages render as kwok renders them."""

import pytest

from ascendop.sim.gotemplate import Template
from ascendop.sim.jq import UnknownExpressionError
from ascendop.sim.stages import quote, to_yaml

FUNCTIONS = {"Quote": quote, "YAML": to_yaml, "Now": lambda: "now"}
DATA = {"name": "p", "list": [{"n": "x"}, {"n": "y"}], "map": {"b": 2, "a": 1}, "flag": True}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a {{ .name }} b", "a p b"),
        ("{{ .name | Quote }}{{ Quote .missing }}", '"p""null"'),
        ("{{ range .list }}{{ .n }},{{ end }}", "x,y,"),
        ("{{ range $i, $e := .list }}{{ $i }}={{ $e.n }};{{ end }}", "0=x;1=y;"),
        ("{{ range $e := .list }}{{ $e.n }}{{ end }}", "xy"),
        ("{{ range $k, $v := .map }}{{ $k }}{{ $v }}{{ end }}", "a1b2"),
        ("{{ range .none }}a{{ else }}b{{ end }}", "b"),
        ("{{ if .flag }}yes{{ else }}no{{ end }}", "yes"),
        ('{{ if .none }}1{{ else if eq .name "p" }}2{{ else }}3{{ end }}', "2"),
        ("{{ with .name }}[{{ . }}]{{ end }}{{ with .none }}x{{ end }}", "[p]"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        ("{{ $r := . }}{{ range .list }}{{ $r.name }}{{ $.name }}{{ end }}", "pppp"),
        ('{{ or .none "d" }} {{ and .flag .name }} {{ not .flag }}', "d p false"),
        ('{{ index .map "b" }}{{ index .list 1 | Quote }}', '2"{\\"n\\":\\"y\\"}"'),
        ('{{ index .list 9 }}{{ index ( or .none dict ) "x" }}', "<no value><no value>"),
        ('{{ printf "%s-%d" .name 3 }}', "p-3"),
        ("{{ eq .name `p` }} {{ ne .name `p` }} {{ len .list }}", "true false 2"),
        ("a  {{- .name -}}  b {{/* nothing */}}", "apb "),
        ("x:{{ YAML .map 1 }}", "x:\n  a: 1\n  b: 2\n  "),
        ("{{ .a.b.c }}", "<no value>"),
        ("{{ Now }}", "now"),
    ],
)
def test_a_template_renders_as_in_go(text, want):
    assert Template(text, FUNCTIONS).render(DATA) == want


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{{ upper .name }}", "upper"),
        ("\n\n{{ foo }}", "line 3"),
        ("{{ if .x }}", "no end"),
        ("{{ end }}", "without a block"),
        ("{{ (.x }}", "parenthesis"),
        ("{{ .x .y }}", "no function"),
        ('{{ define "x" }}{{ end }}', "define"),
        ("{{ ! }}", "!"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(text, told):
    with pytest.raises(UnknownExpressionError, match=told):
        Template(text, FUNCTIONS)
