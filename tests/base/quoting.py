"""Reads what tests/base/quote_test.cpp wrote by the readers of each language. Usage: quoting.py DIRECTORY

Without PyYAML its part is left out with a line. Exit code: 0 where all texts are what they were.
"""
import csv
import html.parser
import json
import os
import re
import subprocess
import sys
import tomllib

os.chdir(sys.argv[1])


def read(name):
    with open(name, encoding="utf-8", newline="") as file:
        return file.read()


expected = json.loads(read("expected.json"))
shown = json.loads(read("shown.json"))
with open("bytes", "rb") as file:
    exact = file.read().split(b"\0")[:-1]
wrong = 0


def in_unicode(text):
    """JSON's writer counts the bytes that are no UTF-8 otherwise: several may become one sign."""
    return re.sub("\ufffd+", "\ufffd", text) if isinstance(text, str) else text


def check(language, found, wanted):
    global wrong
    found, wanted = list(map(in_unicode, found)), list(map(in_unicode, wanted))
    differ = [(f, w) for f, w in zip(found, wanted) if f != w]
    if len(found) == len(wanted) and not differ:
        return
    wrong += 1
    print(f"{language}: {len(found)} of {len(wanted)} texts, {len(differ)} differ: {differ[:3]}")


class Pages(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.titles, self.texts, self.scripts, self.into = [], [], [], None

    def handle_starttag(self, tag, attributes):
        self.into = {"p": self.texts, "script": self.scripts}[tag]
        self.into.append("")
        self.titles += [value or "" for name, value in attributes if name == "title"]

    def handle_endtag(self, tag):
        self.into = None

    def handle_data(self, data):
        if self.into is not None:
            self.into[-1] += data


def from_latex(cell):
    """The text that LaTeX would set. Fails at a sign that still means something."""
    names = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<",
             "textgreater": ">", "textbar": "|", "textquotedbl": '"', "textquotesingle": "'",
             "textasciigrave": "`"}
    text = ""
    while cell:
        if match := re.match(r"\\([a-z]+)\{\}", cell):
            text += names[match[1]]
        elif match := re.match(r"\\([&%$#_{}])", cell):
            text += match[1]
        elif match := re.match(r"\{([\[*-])\}", cell):
            text += match[1]
        elif match := re.match(r"[^\\{}&%$#_~^<>|\"'`\[*-]", cell):
            text += match[0]
        else:
            raise ValueError(cell)
        cell = cell[match.end():]
    return text


def from_shell(script):
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    return done.stdout.split(b"\0")[:-1]


toml = tomllib.loads(read("a.toml"))
check("TOML", [toml[f"t{i}"] for i in range(len(expected))], expected)
try:
    import yaml
except ImportError:
    print("left out: apt-get install python3-yaml")
else:
    page = yaml.safe_load(read("a.yaml"))
    check("YAML", page["texts"], expected)
    words = [next(iter(each.items())) for each in page["words"]]
    check("names of YAML", [name for name, _ in words], expected)
    check("words of YAML", [word for _, word in words], expected)
fields = [row[0] for row in csv.reader(read("a.csv").splitlines(keepends=True), strict=True)]
check("CSV", [f[1:] if f == "'" + s and s[0] in "=+-@＝＋－＠" else f for f, s in zip(fields, shown)],
      shown)
check("JSON", [json.loads(line) for line in read("a.json").split("\n")[:-1]], expected)
page = Pages()
page.feed(read("a.html"))
page.close()
check("HTML", page.texts, shown)
check("attributes of HTML", page.titles, shown)
check("JSON in a page", [json.loads(script) for script in page.scripts], expected)
rows = [line.rsplit(" & ", 1)[0] for line in read("a.tex").split("\n")[:-1]]
check("LaTeX", [from_latex(row) for row in rows], shown)
check("a shell", from_shell(". ./a.sh"), exact)
ended = [text if text.endswith(b"\n") else text + b"\n" for text in exact]
check("here documents", from_shell(". ./here.sh"), ended)
echo = "".join(f"printf '%s\\0' \"$T{i}\"\n" for i in range(len(exact)))
check("systemd", from_shell(". ./a.env\n" + echo), exact)
sys.exit(1 if wrong else 0)
