"""A page as its reader sees it: text, links, forms, and controls found by their labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)
UNSEEN = frozenset({"script", "style", "template", "head", "title"})
SIBLINGS = {"option": {"option"}, "li": {"li"}, "tr": {"tr", "td", "th"}, "td": {"td", "th"}, "th": {"td", "th"}}
TYPED = {"text", "email", "password", "search", "number", "url", "tel", "date"}


@dataclass(eq=False, slots=True)
class Node:
    """An element with its attributes and, in order, its children and pieces of text."""

    tag: str
    attrs: dict[str, str]
    parent: "Node | None" = None
    children: list["Node | str"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """Yield this element and every element below it, in document order."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def text(self) -> str:
        """Return the text that a reader sees, with runs of white space as one space."""
        return " ".join("".join(self._pieces()).split())

    def closest(self, tag: str) -> "Node | None":
        """Return the nearest element of that kind around this one, or None."""
        node = self.parent
        while node is not None and node.tag != tag:
            node = node.parent
        return node

    def has(self, name: str) -> bool:
        """True when the attribute is there, whatever its value."""
        return name in self.attrs

    def _pieces(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in UNSEEN:
                yield " "
                yield from child._pieces()
                yield " "


class _TreeBuilder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.open = Node("#document", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.open.tag in SIBLINGS.get(tag, set()):
            self.open = self.open.parent or self.root
        node = Node(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.children.append(node)
        if tag not in VOID:
            self.open = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        node: Node | None = self.open
        while node is not None and node.tag != tag:
            node = node.parent
        if node is not None and node.parent is not None:
            self.open = node.parent

    def handle_data(self, data: str) -> None:
        self.open.children.append(data)


class NotOnPage(AssertionError):
    """What the test looks for isn't on the page; the message shows the page."""


class Page:
    """One HTML answer; whoever asks for something that isn't there is told what is."""

    def __init__(self, url: str, status: int, headers: dict[str, str], body: str) -> None:
        self.url, self.status, self.headers, self.body = url, status, headers, body
        builder = _TreeBuilder()
        builder.feed(body)
        builder.close()
        self.root = builder.root

    @property
    def text(self) -> str:
        """The text of the page as a reader sees it."""
        return self.root.text()

    @property
    def title(self) -> str:
        """The text of the title element, or nothing."""
        return next((node.text() for node in self.all("title")), "")

    def all(self, *tags: str) -> list[Node]:
        """Return all elements of these kinds in document order."""
        return [node for node in self.root.walk() if node.tag in tags]

    def link(self, text: str) -> Node:
        """Return the one link with this text or accessible name."""
        return self._one("link", text, [node for node in self.all("a") if node.has("href")], self.name_of)

    def button(self, text: str, *, within: str | None = None) -> Node:
        """Return the one submit button with this text; `within` is text of the form or section it stands in."""
        buttons = [node for node in self.all("button", "input") if submits(node)]
        if within is not None:
            buttons = [node for node in buttons if self._stands_in(node, within)]
        return self._one("button", text, buttons, self.name_of)

    def control(self, label: str, *, form: Node | None = None) -> Node:
        """Return the one field that a person fills in or ticks under this label."""
        fields = [node for node in self.all("input", "textarea", "select") if _is_for_people(node)]
        if form is not None:
            fields = [node for node in fields if self.form_of(node) is form]
        return self._one("field", label, fields, self.name_of)

    def tick_box(self, label_or_value: str, *, form: Node | None = None) -> Node:
        """Return the one tick box or radio button with this value or label."""
        boxes = [n for n in self.all("input") if n.attrs.get("type", "").lower() in ("checkbox", "radio")]
        if form is not None:
            boxes = [node for node in boxes if self.form_of(node) is form]
        by_value = [node for node in boxes if node.attrs.get("value") == label_or_value]
        return by_value[0] if len(by_value) == 1 else self._one("tick box", label_or_value, boxes, self.name_of)

    def form_of(self, control: Node) -> Node | None:
        """Return the form that a control belongs to: the one it names, else the one around it."""
        if owner := control.attrs.get("form"):
            return next((node for node in self.all("form") if node.attrs.get("id") == owner), None)
        return control.closest("form")

    def name_of(self, node: Node) -> str:
        """Return the accessible name of an element: ARIA first, then its labels, then its own text."""
        if labelled_by := node.attrs.get("aria-labelledby", "").split():
            return " ".join(n.text() for wanted in labelled_by for n in self.root.walk() if n.attrs.get("id") == wanted)
        if label := node.attrs.get("aria-label"):
            return label
        if node.tag in ("a", "button"):
            return node.text()
        if submits(node):
            return node.attrs.get("value", "")
        return self._label_text(node)

    def _label_text(self, node: Node) -> str:
        own_id = node.attrs.get("id")
        labels = [label for label in self.all("label") if own_id and label.attrs.get("for") == own_id]
        around = node.closest("label")
        return " ".join(label.text() for label in labels or ([around] if around else []))

    def _stands_in(self, node: Node, text: str) -> bool:
        wanted = text.casefold()
        around = node.parent
        while around is not None and around.tag not in ("main", "body", "#document"):
            name = around.attrs.get("aria-label", "")
            if around.tag in ("form", "section", "article", "tr", "li", "fieldset", "details", "div") and (
                wanted in around.text().casefold() or wanted in name.casefold()
            ):
                return True
            around = around.parent
        return False

    def _one(self, kind: str, wanted: str, nodes: list[Node], name: Callable[[Node], str]) -> Node:
        target = " ".join(wanted.split()).casefold()
        tests: list[Callable[[str], bool]] = [
            lambda text: text == target,
            lambda text: text.startswith(target),
            lambda text: target in text,
        ]
        for test in tests:
            found = [node for node in nodes if test(name(node).casefold())]
            if len(found) == 1:
                return found[0]
            if found:
                raise NotOnPage(f"{len(found)} times the {kind} {wanted!r}, wanted one\n{self.describe()}")
        offered = [name(node) for node in nodes]
        raise NotOnPage(f"no {kind} {wanted!r}; there are {offered}\n{self.describe()}")

    def describe(self) -> str:
        """Return status, address and text for a failure message."""
        return f"--- {self.status} {self.url}\n{self.text[:3000]}\n---"


def values_of(page: Page, form: Node, pressed: Node | None) -> list[tuple[str, str]]:
    """Return what a browser submits for this form: hidden fields, filled fields, ticked boxes, the pressed button."""
    pairs: list[tuple[str, str]] = []
    for node in page.all("input", "textarea", "select", "button"):
        if page.form_of(node) is not form or not node.attrs.get("name") or _disabled(node):
            continue
        if submits(node) and node is not pressed:
            continue
        pairs.extend((node.attrs["name"], value) for value in _values(node))
    return pairs


def _values(node: Node) -> list[str]:
    kind = node.attrs.get("type", "text").lower()
    if node.tag == "textarea":
        return [node.attrs.get("value", "".join(child for child in node.children if isinstance(child, str)))]
    if node.tag == "select":
        options = [option for option in node.walk() if option.tag == "option"]
        chosen = [option for option in options if option.has("selected")] or options[:1]
        return [option.attrs.get("value", option.text()) for option in chosen]
    if node.tag == "input" and kind in ("checkbox", "radio"):
        return [node.attrs.get("value", "on")] if node.has("checked") else []
    if node.tag == "input" and kind in ("file", "reset", "button"):
        return []
    return [node.attrs.get("value", "")]


def submits(node: Node) -> bool:
    """True for a button that sends its form."""
    if node.tag == "button":
        return node.attrs.get("type", "submit").lower() == "submit"
    return node.tag == "input" and node.attrs.get("type", "").lower() in ("submit", "image")


def _is_for_people(node: Node) -> bool:
    return node.tag != "input" or node.attrs.get("type", "text").lower() in TYPED | {"checkbox", "radio"}


def _disabled(node: Node) -> bool:
    around = node.closest("fieldset")
    return node.has("disabled") or (around is not None and around.has("disabled"))
