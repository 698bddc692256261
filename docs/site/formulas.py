"""LaTeX to MathML, for the few dozen commands the documentation uses: formulas that need no script and no font."""

from __future__ import annotations

import re
from html import escape

TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_&~]|\d+(?:\.\d+)?|[^\s\\]", re.S)
LETTERS = (
    "alpha α beta β gamma γ delta δ varepsilon ε epsilon ϵ zeta ζ eta η theta θ kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ "
    "sigma σ tau τ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω "
    "ell ℓ infty ∞ partial ∂ nabla ∇ top ⊤ dots … ldots … cdots ⋯"
)
RELATIONS = (
    "mid ∣ sim ∼ cdot ⋅ in ∈ ge ≥ geq ≥ le ≤ leq ≤ ne ≠ neq ≠ approx ≈ propto ∝ pm ± times × circ ∘ to → leftarrow ← "
    "rightarrow → odot ⊙ otimes ⊗ ll ≪ gg ≫ equiv ≡ mapsto ↦ succ ≻"
)
FUNCTIONS = "log ln exp sin cos tan tanh sinh cosh arcsin arccos arctan min max det arg sup inf tr erf"


def pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


GREEK, SIGNS, NAMES = pairs(LETTERS), pairs(RELATIONS), set(FUNCTIONS.split())
FENCES = {"langle": "⟨", "rangle": "⟩", "lVert": "‖", "rVert": "‖", "|": "‖", "lfloor": "⌊", "rfloor": "⌋", "{": "{", "}": "}"}
LARGE = {"sum": "∑", "prod": "∏", "int": "∫"}
ACCENTS = {"bar": "¯", "tilde": "~", "hat": "^", "dot": "˙", "overline": "¯", "vec": "→"}
SPACES = {",": 0.17, ":": 0.22, ";": 0.28, "!": 0.0, " ": 0.3, "quad": 1.0, "qquad": 2.0}
SIZES = {"bigl": 1.3, "bigr": 1.3, "big": 1.3, "Bigl": 1.8, "Bigr": 1.8, "Big": 1.8, "biggl": 2.2, "biggr": 2.2}
FONTS = {"mathrm", "text", "operatorname", "rm", "textstyle", "mathbf", "mathbb", "mathcal", "displaystyle"}


LONG = 25  # signs of a formula in a line that may need to scroll on a phone


class Unknown(ValueError):
    """A command that is not among those above."""


class Reader:
    """Reads LaTeX token by token and writes MathML."""

    def __init__(self, text: str) -> None:
        # the words of \text{...} keep their spaces
        text = re.sub(r"\\(text|mathrm|operatorname)\{([^{}\\]*)\}", lambda m: f"\\{m[1]}{{{m[2].replace(' ', '~')}}}", text)
        self.tokens = TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def row(self, *ends: str) -> str:
        """Everything up to one of ``ends``, which is read too."""
        parts: list[str] = []
        while (token := self.peek()) and token not in ends:
            parts.append(self.scripted())
        self.next()
        return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"

    def argument(self) -> str:
        if self.peek() == "{":
            self.next()
            return self.row("}")
        if re.fullmatch(r"\d{2,}", self.peek()):  # \frac12 takes one digit each
            token = self.tokens[self.at]
            self.tokens[self.at] = token[1:]
            return f"<mn>{token[0]}</mn>"
        return self.atom()

    def words(self) -> str:
        """The plain text of a braced group."""
        if self.peek() != "{":
            return self.next()
        self.next()
        found = []
        while (token := self.next()) not in ("}", ""):
            found.append("\N{NO-BREAK SPACE}" if token == "~" else SIGNS.get(token[1:], token) if token[0] == "\\" else token)
        return "".join(found)

    def scripted(self) -> str:
        large = self.peek().lstrip("\\") in ("sum", "prod", "max", "min")
        base, low, high = self.atom(), "", ""
        while self.peek() in ("^", "_", "'"):
            token = self.next()
            if token == "'":
                high += "<mo>′</mo>"
            elif token == "^":
                high += self.argument()
            else:
                low = self.argument()
        high = f"<mrow>{high}</mrow>" if high else ""
        under, over = ("munder", "munderover") if large else ("msub", "msubsup")
        if low and high:
            return f"<{over}>{base}{low}{high}</{over}>"
        if low:
            return f"<{under}>{base}{low}</{under}>"
        return f"<msup>{base}{high}</msup>" if high else base

    def atom(self) -> str:
        token = self.next()
        if token == "{":
            return self.row("}")
        if token[:1] == "\\":
            return self.command(token[1:])
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "()[]|":
            return f'<mo stretchy="false" form="{"prefix" if token in "([" else "postfix"}">{token}</mo>'
        if token == "~":
            return '<mspace width="0.3em"/>'
        return f"<mo>{escape({'-': '−', '*': '∗'}.get(token, token))}</mo>"

    def command(self, name: str) -> str:
        if name in GREEK:
            upper = ' mathvariant="normal"' if name in ("infty", "partial", "top", "nabla") or name[0].isupper() else ""
            return f"<mi{upper}>{GREEK[name]}</mi>"
        if name in SIGNS:
            return f"<mo>{SIGNS[name]}</mo>"
        if name in LARGE:
            return f'<mo largeop="true" stretchy="false">{LARGE[name]}</mo>'
        if name in NAMES:
            return f'<mrow><mi>{name}</mi><mspace width="0.13em"/></mrow>'
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}em"/>'
        if name in FENCES:
            return f'<mo stretchy="false">{FENCES[name]}</mo>'
        if name in SIZES:
            sign = self.next()
            sign, size = FENCES[sign[1:]] if sign[0] == "\\" else sign, SIZES[name]
            return f'<mo stretchy="true" symmetric="true" minsize="{size}em" maxsize="{size}em">{escape(sign)}</mo>'
        if name in ("frac", "tfrac", "dfrac"):
            top, bottom = self.argument(), self.argument()
            return f'<mstyle displaystyle="{"false" if name == "tfrac" else "true"}"><mfrac>{top}{bottom}</mfrac></mstyle>'
        if name == "binom":
            top, bottom = self.argument(), self.argument()
            return f'<mrow><mo>(</mo><mfrac linethickness="0">{top}{bottom}</mfrac><mo>)</mo></mrow>'
        if name == "sqrt":
            return f"<msqrt>{self.argument()}</msqrt>"
        if name in ACCENTS:
            wide = "true" if name == "overline" else "false"
            return f'<mover accent="true">{self.argument()}<mo stretchy="{wide}">{ACCENTS[name]}</mo></mover>'
        if name in ("left", "right"):
            sign = self.next()
            sign = FENCES[sign[1:]] if sign[0] == "\\" else sign
            return "" if sign == "." else f'<mo stretchy="true">{escape(sign)}</mo>'
        if name == "begin":
            return self.table()
        if name in FONTS:
            return self.font(name)
        raise Unknown(f"\\{name}")

    def font(self, name: str) -> str:
        if name in ("textstyle", "displaystyle"):
            return ""
        if name in ("mathbf", "mathbb", "mathcal"):
            style = {"mathbf": "font-weight:bold", "mathbb": "font-weight:bold", "mathcal": "font-style:italic"}[name]
            return f'<mi mathvariant="normal" style="{style}">{escape(self.words())}</mi>'
        if name == "text":
            return f"<mtext>{escape(self.words())}</mtext>"
        words = self.words()
        space = '<mspace width="0.13em"/>' if name == "operatorname" else ""
        return f'<mrow><mi mathvariant="normal">{escape(words)}</mi>{space}</mrow>'

    def table(self) -> str:
        """An environment: aligned equations, cases, a matrix."""
        name, rows, cells = self.words(), [], []
        while self.peek():
            cells.append(self.row("&", "\\\\", "\\end"))
            end = self.tokens[self.at - 1]
            if end != "&":
                rows.append("<mtr>" + "".join(f"<mtd>{c}</mtd>" for c in cells) + "</mtr>")
                cells = []
            if end == "\\end":
                break
        self.words()
        left, right = {"cases": ("{", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]")}.get(name, ("", ""))
        body = f'<mtable displaystyle="true" class="{name}">{"".join(rows)}</mtable>'
        return f"<mrow><mo>{left}</mo>{body}<mo>{right}</mo></mrow>" if left else body


def mathml(text: str, *, block: bool = False) -> str:
    """LaTeX as MathML; as code, if it holds a command that is not known."""
    try:
        body = Reader(text.strip()).row()
    except Unknown:
        tag = "pre" if block else "code"
        return f"<{tag}>{escape(text.strip())}</{tag}>"
    if not block:
        return f"<math>{body}</math>" if len(text) < LONG else f'<span class="long"><math>{body}</math></span>'
    return f'<div class="formula" tabindex="0"><math display="block">{body}</math></div>'
