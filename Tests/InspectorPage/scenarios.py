"""What a person does on the page, on three real nodes. Each scenario is independent of the others."""

import base64
import json
import re
import shlex
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from selenium.webdriver.common.keys import Keys

import devserver
import fakenode
from cluster import free_ports, READ_TOKEN, ROOT, WRITE_TOKEN, wait_until

FILES = devserver.FILES
IMAGES = ROOT / "docs/images"
VIEWS = ["#/conflicts", "#/conflicts?state=all&group=node", "#/data/Contact", "#/nodes", "#/timeline", "#/model"]
BIG = 9007199254740993  # one more than a double can tell from its neighbour
MARKUP = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>"
LINK = "javascript:window.hacked=1"
BIDI = "abc\u202efdp.exe\u2066\u200b\u0007"
LONG = "W" * 3000

ALL = []


def scenario(function):
    ALL.append(function)
    return function


class World:
    """The nodes with their data, and the page."""

    def __init__(self, nodes, page, binary, makes_images):
        self.nodes = nodes
        self.page = page
        self.binary = binary
        self.makes_images = makes_images
        self.people = {}
        self.is_cut = False
        self.number = 0
        self.prepare()

    def reset(self):
        if self.is_cut:
            self.heal()
        self.page.size(1280, 900)
        self.page.prefers(prefers_color_scheme="light", prefers_reduced_motion="no-preference")

    def cut(self):
        self.is_cut = True
        self.nodes.cut(2)

    def heal(self):
        self.nodes.heal()
        self.is_cut = False

    def person(self, name, **values):
        self.number += 1
        uri = self.nodes[1].insert("Contact", {"name": name, "phone": f"+46 70 000 00 {self.number:02}", "email": f"p{self.number}@example.com", **values}, author="setup")
        self.people[name] = uri
        return uri

    def apart(self, changes, authors=("anna", "björn"), contexts=("phone call", None)):
        """Changes objects at node 1 and at node 2 while these are cut apart: {uri: (values, values)}."""
        self.nodes.wait_equal()
        self.cut()
        for uri, (one, two) in changes.items():
            self.nodes[1].update(uri, one, author=authors[0], context=contexts[0])
            self.nodes[2].update(uri, two, author=authors[1], context=contexts[1])
        self.heal()

    def fight(self, *names, prop="phone"):
        """Gives new contacts a conflict on one property, and gives the conflicts' IDs."""
        uris = [self.person(name) for name in names]
        self.apart({uri: ({prop: f"+46 1 {name}"}, {prop: f"+46 2 {name}"}) for uri, name in zip(uris, names)})
        return [self.id(uri, prop) for uri in uris]

    @staticmethod
    def id(uri, prop):
        return ".".join([*uri.split("/")[-2:], prop])

    def place(self, uri, prop):
        return f"#/conflicts/{self.id(uri, prop)}"

    def prepare(self):
        n1, n2 = self.nodes[1], self.nodes[2]
        shop = n1.insert("Shop", {"name": "Harbour", "opened": "2024-05-01T08:00:00.000Z", "turnover": "1250.75"}, author="setup")
        kiosk = n1.insert("Shop", {"name": "Kiosk"}, author="setup")
        tag = n1.insert("Tag", {"label": "vip"}, author="setup")
        self.people.update(Harbour=shop, Kiosk=kiosk, vip=tag)
        ada = self.person("Ada Byron", shop=shop, age=36, notes="Prefers to be called in the morning. Speaks French.",
                          phone="+46 70 123 45 00", photo=base64.b64encode(bytes(range(200))).decode(), points=BIG)
        n1.save({"update": ada, "add": {"tags": [tag]}}, author="setup")
        report = self.person("Bob Moran", manager=ada, shop=shop)
        names = ["Cleo", "Dag", "Eve", "Finn", "Gina", "Hugo", "Ines", "Jana"]
        for name in names:
            self.person(name, shop=shop)
        many = [{"insert": "Contact", "id": f"@m{i}", "values": {"name": f"Many {i:02}", "email": f"many{i}@example.com"}} for i in range(60)]
        n1.save(*many, author="import", context="nightly import")
        self.nodes.wait_equal()
        self.cut()
        n1.update(ada, {"phone": "+46 70 123 45 67"}, author="anna", context="phone call")
        n2.update(ada, {"phone": "+46 70 123 99 00"}, author="björn", context="mail of 12 May")
        n1.update(ada, {"notes": "Prefers to be called in the morning. Speaks French fluently."}, author="anna")
        n2.update(ada, {"notes": "Prefers to be called in the evening. Speaks French and German."}, author="björn")
        n1.update(ada, {"photo": base64.b64encode(bytes(range(1, 190))).decode()}, author="anna")
        n2.update(ada, {"photo": base64.b64encode(bytes([9, *range(1, 220)])).decode()}, author="björn")
        n1.update(ada, {"points": BIG + 1}, author="anna")
        n2.update(ada, {"points": 7}, author="björn")
        for name in names:
            n1.update(self.people[name], {"phone": f"+46 1 {name}"}, author="anna")
            n2.update(self.people[name], {"phone": f"+46 2 {name}"}, author="björn")
        n1.update(kiosk, {"name": "Kiosk by the sea"}, author="anna")
        n2.save({"delete": kiosk}, author="björn")
        for node, author in ((n1, "anna"), (n2, "björn")):
            self.people[f"Same {author}"] = node.insert("Contact", {"name": f"Same key, by {author}", "email": "same@example.com"}, author=author)
        self.heal()
        self.people["report"] = report

    def cli(self, line, node=1):
        """Runs a command line that the page gave, and gives what it printed."""
        words = shlex.split(line)
        assert words[0] == "tributary", line
        done = subprocess.run([self.binary, *words[1:]], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def image(self, name, height=900):
        if self.makes_images:
            IMAGES.mkdir(parents=True, exist_ok=True)
            self.page.run("document.activeElement?.blur(); scrollTo(0, 0)")
            path = IMAGES / f"inspector-{name}.png"
            self.page.shot(path, height)
            self.page.size(1280, 900)
            try:
                from PIL import Image
            except ImportError:
                return
            # Few colours: the images are part of the repository.
            with Image.open(path) as image:
                small = image.convert("RGB").quantize(160, dither=Image.Dither.NONE)
            small.save(path, optimize=True)


def lines_of_commands(page):
    return page.run("return [...document.querySelectorAll('.command code')].map((one) => one.textContent)")


# The files

@scenario
def served(world):
    """The page comes with a strict policy, an ETag and no sniffing"""
    for path in ["/"] + [f"/inspector/{file.name}" for file in FILES.iterdir() if file.name != "index.html"]:
        with urllib.request.urlopen(world.page.bases[1] + path, timeout=10) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy, policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            assert answer.headers["Referrer-Policy"] == "no-referrer", path
            assert answer.headers["Set-Cookie"] is None, path
            kind = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}.get(path.rsplit(".", 1)[-1], "text/html")
            assert answer.headers["Content-Type"].startswith(kind), f"{path}: {answer.headers['Content-Type']}"
            tag = answer.headers["ETag"]
            assert tag, f"{path} has no ETag"
        request = urllib.request.Request(world.page.bases[1] + path, headers={"If-None-Match": tag})
        try:
            status = urllib.request.urlopen(request, timeout=10).status
        except urllib.error.HTTPError as error:
            status = error.code
        assert status == 304, f"{path} gave {status} for its own ETag"


@scenario
def bounded(world):
    """All files together have at most 150,000 bytes, and none parses markup"""
    total = sum(file.stat().st_size for file in FILES.iterdir())
    assert total <= 150_000, f"{total:,} bytes"
    for file in FILES.glob("*.js"):
        text = re.sub(r"//.*", "", file.read_text())
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc", "document.cookie"):
            assert word not in text, f"{file.name} uses {word}"
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), f"{file.name} names another address"


# Conflicts

@scenario
def newcomer(world):
    """A newcomer finds out who changed one phone number and puts it right within a minute"""
    uri = world.person("Nora Newcomer")
    world.apart({uri: ({"phone": "+46 8 111"}, {"phone": "+46 8 222"})})
    page = world.page
    began = time.monotonic()
    page.open(1, author=None)
    page.press("phone of Nora Newcomer")
    page.sees("What happened", "anna wrote +46 8 111", "björn wrote +46 8 222", "had not heard of", "readers see the value of anna", "shown now")
    page.run("document.querySelectorAll('button.keep')[1].click()")
    page.sees("Who are you?")
    page.write("dialog input", "nora")
    page.press("Go on")
    page.sees("Decided: side 2 stays.")
    page.sees("Decided by nora")
    assert time.monotonic() - began < 60
    for number in (1, 2, 3):
        wait_until(f"node {number} shows the chosen value", lambda: world.nodes[number].value(uri, "phone") == "+46 8 222")


@scenario
def live(world):
    """A conflict appears on the open page within three seconds of its nodes hearing each other"""
    uri = world.person("Liv Live")
    world.nodes.wait_equal()
    page = world.page
    page.open(1)
    page.sees_not("Liv Live", "#list")
    world.cut()
    world.nodes[1].update(uri, {"phone": "+46 1"}, author="anna")
    world.nodes[2].update(uri, {"phone": "+46 2"}, author="björn")
    world.nodes.heal(wait=False)
    wait_until("node 1 has the conflict", lambda: world.id(uri, "phone") in [one["id"] for one in world.nodes[1].conflicts()], 30, 0.05)
    page.sees("phone of Liv Live", seconds=3)
    world.heal()


@scenario
def elsewhere(world):
    """A save at another node is on the open page within three seconds"""
    page = world.page
    page.open(1, "#/data/Contact?where=" + "name == 'Bob Moran'")
    page.sees("1 object;")
    world.nodes[2].update(world.people["report"], {"notes": "saved at node 2"}, author="björn")
    page.sees("saved at node 2", within="main", seconds=3)


@scenario
def note_and_author(world):
    """Who decided, and the note, are shown after a decision and after a reload"""
    [conflict] = world.fight("Note Taker")
    page = world.page
    page.open(1, f"#/conflicts/{conflict}", author="erika")
    page.write("#note", "called them, <b>side 1</b> is right")
    page.press("Keep this side")
    page.sees("Decided: side 1 stays.", "Decided by erika")
    page.driver.refresh()
    page.ready()
    page.sees("Decided by erika", "called them, <b>side 1</b> is right")
    page.go("#/conflicts?state=resolved&q=called%20them")
    page.until("it is found by its note", lambda: len(page.rows()) == 1 and "phone of Note Taker" in page.rows()[0])


@scenario
def undo(world):
    """A decision is undone from its notice, and another one from the conflict's page"""
    conflicts = world.fight("Undo One", "Undo Two")
    page = world.page
    page.open(1, f"#/conflicts/{conflicts[0]}")
    page.run("document.querySelectorAll('button.keep')[1].click()")
    page.sees("Decided: side 2 stays.")
    wait_until("it is decided", lambda: world.nodes[1].value(world.people["Undo One"], "phone") == "+46 2 Undo One")
    page.press("Undo", within="#notices")
    page.sees("Undone: 1 of 1.")
    wait_until("it is undone", lambda: world.nodes[1].value(world.people["Undo One"], "phone") == "+46 1 Undo One")
    page.open(1, f"#/conflicts/{conflicts[1]}")
    page.run("document.querySelectorAll('button.keep')[1].click()")
    page.sees("Decided: side 2 stays.")
    page.press("Undo this decision")
    page.sees("Undone. Readers see again")
    wait_until("it is undone", lambda: world.nodes[1].value(world.people["Undo Two"], "phone") == "+46 1 Undo Two")


@scenario
def own_value(world):
    """A person writes a value that neither side has"""
    [conflict] = world.fight("Own Value")
    page = world.page
    page.open(1, f"#/conflicts/{conflict}")
    page.write("[name='value phone']", "+46 8 'both' were wrong")
    page.press("Save this", within="form.card")
    page.sees("Decided: your value stays.")
    wait_until("all nodes have it", lambda: {world.nodes[n].value(world.people["Own Value"], "phone") for n in (1, 2, 3)} == {"+46 8 'both' were wrong"})


@scenario
def exact_integers(world):
    """Integers over 53 bits are shown and saved exactly"""
    page = world.page
    page.open(1, world.place(world.people["Ada Byron"], "points"))
    page.sees(str(BIG), str(BIG + 1))
    page.write("[name='value points']", "not a number")
    page.press("Save this", within="form.card")
    page.sees("points expects an integer, got not a number.")
    page.write("[name='value points']", str(BIG + 2))
    page.press("Save this", within="form.card")
    page.sees("Decided: your value stays.")
    text = wait_until("it is saved", lambda: str(BIG + 2) in json.dumps(world.nodes[2].value(world.people["Ada Byron"], "points")))
    assert text


@scenario
def many(world):
    """Marked conflicts are decided by a policy and undone together"""
    world.fight("Lot A", "Lot B", "Lot C")
    page = world.page
    page.open(1, "#/conflicts?q=Lot")
    page.until("three rows", lambda: len(page.rows()) == 3)
    page.run("document.querySelector('[data-key=all]').click()")
    page.sees("3 marked")
    page.press("Decide by a policy…")
    page.sees("As a command", within="dialog")
    page.run("document.querySelector('dialog select').value = 'mergeByPropertyObjectTrump'")
    page.press("Decide", within="dialog")
    page.sees("Decided 3 of 3.", "No conflict matches this filter.")
    for name in ("Lot A", "Lot B", "Lot C"):
        assert world.nodes[1].value(world.people[name], "phone") == f"+46 2 {name}"
    page.press("Undo these 3")
    page.sees("Undone: 3 of 3.", seconds=20)
    for name in ("Lot A", "Lot B", "Lot C"):
        assert world.nodes[1].value(world.people[name], "phone") == f"+46 1 {name}"


@scenario
def all_of_a_filter(world):
    """All conflicts of an entity that match a predicate are shown and decided in one save"""
    world.fight("Whole X", "Whole Y")
    page = world.page
    page.open(1, "#/conflicts?entity=Contact")
    page.press("Decide all of this filter…")
    page.write("dialog [name=where]", "name BEGINSWITH 'Whole'")
    page.press("Show what it would do", within="dialog")
    page.sees("2 conflicts would be decided", "Whole X phone gets +46 2 Whole X")
    page.press("Decide them", within="dialog")
    page.sees("Decided 2 conflicts in one save.")
    assert world.nodes[1].value(world.people["Whole X"], "phone") == "+46 2 Whole X"


@scenario
def groups(world):
    """Conflicts are grouped by entity, policy, author, node and kind"""
    page = world.page
    page.open(1, "#/conflicts?state=all")
    for by, heading in (("author", "anna and björn"), ("node", "node 1 and node 2"), ("entity", "Contact"), ("policy", "error"), ("kind", "a property")):
        page.choose("Group by", by)
        page.until(f"the heading {heading}", lambda: heading in page.run("return [...document.querySelectorAll('tr.group')].map((one) => one.innerText).join()"))
    page.run("document.querySelector('tr.group button').click()")
    page.until("the group is marked", lambda: "marked" in page.text(".marked"))


@scenario
def filters(world):
    """Filters are in the address, and find by name, author and value"""
    page = world.page
    page.open(1, "#/conflicts?q=%2B46%20123%2099")
    page.until("only Ada's phone", lambda: len(page.rows()) == 1 and "phone of Ada Byron" in page.rows()[0])
    page.choose("State", "settled")
    page.sees("No conflict matches this filter.")
    page.write("[data-filter]", "evening")
    page.until("only Ada's notes", lambda: len(page.rows()) == 1 and "notes of Ada Byron" in page.rows()[0])
    assert "state=settled" in page.driver.current_url and "q=evening" in page.driver.current_url
    page.driver.refresh()
    page.ready()
    page.until("the same after a reload", lambda: len(page.rows()) == 1)


@scenario
def within_words(world):
    """Differences are marked within words, also in texts and bytes"""
    page = world.page
    page.open(1, world.place(world.people["Ada Byron"], "phone"))
    marks = page.run("return [...document.querySelectorAll('.card[data-color]')].map((card) => [...card.querySelectorAll('.body :is(ins, del)')].map((one) => one.tagName + one.textContent).join(' '))")
    assert marks == ["DEL000 INS123", "DEL000 INS123"] or any("67" in mark for mark in marks) and any("99" in mark for mark in marks), marks
    world.image("conflict", 1180)
    page.open(1, "#/conflicts?state=settled&q=evening")
    page.press("notes of Ada Byron")
    page.until("the differences of the notes", lambda: {"fluently", "evening"} <= set(page.run("return [...document.querySelectorAll('.body ins')].map((one) => one.textContent.trim())")))
    page.open(1, world.place(world.people["Ada Byron"], "photo"))
    page.sees("Binary, 189 bytes; differs from byte 0 on; the other has 200 bytes.", "Binary, 220 bytes")
    assert page.all(".hex ins")


@scenario
def deleted(world):
    """A delete against a change is decided for the object"""
    page = world.page
    page.open(1, "#/conflicts?kind=delete")
    page.press("Kiosk by the sea: deleted or kept")
    page.sees("deleted the object", "changed the object", "Keep the object")
    page.press("Keep the object")
    page.sees("Decided: side")
    wait_until("the shop stays", lambda: world.nodes[2].value(world.people["Kiosk"], "name") == "Kiosk by the sea")


@scenario
def same_key(world):
    """Two objects with one unique key both stay, with keys of their own"""
    page = world.page
    page.open(1, "#/conflicts?kind=uniqueness&state=all")
    page.press("Same key, by björn: the same key twice")
    page.sees("objects got the same key", "Keep all objects, with other keys")
    fields = page.all("fieldset [name='value email']")
    assert len(fields) == 2
    fields[1].send_keys(Keys.CONTROL, "a")
    fields[1].send_keys("other@example.com")
    page.press("Save this", within="form[aria-label^='Keep all']")
    page.sees("Decided: all objects stay")
    for author in ("anna", "björn"):
        assert world.nodes[1].value(world.people[f"Same {author}"], "name") == f"Same key, by {author}"


@scenario
def other_kinds(world):
    """Rows, links, dangling references and discarded saves are shown, and a row is decided by values"""
    n1, n2 = world.nodes[1], world.nodes[2]
    invoice = n1.insert("Invoice", {"number": "2026-1", "amount": "10.50", "paid": False, "due": "2026-01-31T12:00:00.000Z"}, author="setup")
    boss, clerk, tag = world.person("Boss"), world.person("Clerk"), n1.insert("Tag", {"label": "old"}, author="setup")
    n1.save({"update": clerk, "add": {"tags": [tag]}}, author="setup")
    world.nodes.wait_equal()
    entity, number = clerk.split("/")[-2:]
    stale = n1.ask("GET", f"/v1/objects/{entity}/{number}")["version"]
    world.cut()
    n1.update(invoice, {"amount": "11.00", "paid": True}, author="anna")
    n2.update(invoice, {"amount": "12.25"}, author="björn")
    n1.update(clerk, {"manager": boss}, author="anna")
    n2.save({"delete": boss}, author="björn")
    n1.save({"update": clerk, "remove": {"tags": [tag]}}, author="anna")
    n2.save({"update": clerk, "remove": {"tags": [tag]}}, author="björn")
    n2.save({"update": clerk, "add": {"tags": [tag]}}, author="björn")
    n1.save({"update": clerk, "values": {"manager": None, "notes": "lost"}, "version": stale}, author="anna", mergePolicy="mergeByPropertyStoreTrump")
    world.heal()
    page = world.page
    page.open(1, "#/conflicts?state=all")
    page.until("there are rows", page.rows)
    seen = set()
    for one in n1.conflicts("all"):
        if one["kind"] in seen and one["object"] not in (invoice, boss, clerk):
            continue
        seen.add(one["kind"])
        page.go("#/conflicts/" + urllib.parse.quote(one["id"], safe=""))
        page.sees("What happened", "What readers see now", one["reason"]["text"] if one["reason"] and not one["decision"] else "The object")
        assert not page.overflow(), one["id"]
    assert {"row", "update"} < seen and len(seen) >= 4, seen
    page.go("#/conflicts?kind=row")
    page.press("2026-1: the whole row")
    page.sees("amount", "12.25", "Write another value")
    page.write("[name='value amount']", "11.75")
    page.press("Save this", within="form.card")
    page.sees("Decided: your value stays.")
    wait_until("it is saved", lambda: n2.value(invoice, "amount") in ("11.75", 11.75))


@scenario
def sides_changed(world):
    """A decision about sides that are not all sides is refused, and the page shows the others"""
    uri = world.person("Third Side")
    world.apart({uri: ({"phone": "one"}, {"phone": "two"})})
    page = world.page
    page.open(1, world.place(uri, "phone"))
    page.write("[name='value phone']", "mine")
    # Somebody else decides meanwhile. The page does not take the form away from who is typing.
    world.nodes[2].ask("POST", f"/v1/conflicts/{world.id(uri, 'phone')}/resolution", {"side": 2, "author": "cecilia"})
    page.sees("This conflict has changed at some node while you typed.")
    assert page.run("return document.querySelector(\"[name='value phone']\").value") == "mine"
    page.press("Save this", within="form.card")
    page.sees("Decided by cecilia")
    assert world.nodes[1].value(uri, "phone") == "two"


@scenario
def decided_elsewhere(world):
    """A conflict that somebody decides elsewhere shows that on the open page"""
    [conflict] = world.fight("Decided Elsewhere")
    page = world.page
    page.open(1, f"#/conflicts/{conflict}")
    page.sees("Choose what stays")
    world.nodes[2].ask("POST", f"/v1/conflicts/{conflict}/resolution", {"side": 2, "author": "cecilia"})
    page.sees("Decided by cecilia", seconds=5)


@scenario
def commands(world):
    """The command line beside a decision does the same"""
    [conflict] = world.fight("It's a command")
    page = world.page
    page.open(1, f"#/conflicts/{conflict}", author="o'hara")
    line = next(one for one in lines_of_commands(page) if "--side 2" in one)
    line = re.sub(r"--node \S+", f"--node {world.nodes[1].url}", line)
    world.cli(line)
    page.sees("Decided by o'hara")
    line = next(one for one in lines_of_commands(page) if "conflicts undo" in one)
    world.cli(re.sub(r"--node \S+", f"--node {world.nodes[1].url}", line))
    assert world.nodes[1].value(world.people["It's a command"], "phone") == "+46 1 It's a command"


# Hostile data

@scenario
def hostile(world):
    """Markup, scripts, addresses, bidi overrides and endless words in every field stay text"""
    values = {"name": MARKUP + BIDI, "phone": LINK, "notes": LONG + MARKUP, "email": "'\"><svg onload=window.hacked=1>@x"}
    uri = world.nodes[1].insert("Contact", values, author=MARKUP + BIDI)
    world.nodes[1].insert("Shop", {"name": "</title><script>window.hacked=1</script>"}, author=LINK)
    world.apart({uri: ({"phone": MARKUP + "1" + BIDI, "notes": LONG + "1"}, {"phone": LINK + "//" + LONG, "notes": LONG + "2"})}, authors=(MARKUP, BIDI + LONG[:150]), contexts=(MARKUP, LINK))
    page = world.page
    entity, number = uri.split("/")[-2:]
    for place in ["#/conflicts", "#/conflicts?state=all&group=author", world.place(uri, "phone"), "#/conflicts?state=settled&group=node", f"#/object/{entity}/{number}", "#/data/Contact?sort=-name&who=yes", "#/data/Shop", "#/timeline", "#/model", "#/nodes"]:
        for width in (1280, 320):
            page.size(width, 900)
            page.open(1, place, author=MARKUP + BIDI)
            over = page.overflow()
            assert not over, f"{place} at {width}: {over}"
        complaints = page.complaints()
        assert not complaints, f"{place}: {complaints}"
        assert page.run("return document.querySelectorAll('main script, main img, main iframe, main [onerror], main [onload]').length") == 0
        assert page.run("return [...document.querySelectorAll('a')].every((one) => one.getAttribute('href').startsWith('#'))")
        assert page.run("return !/[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u0007]/.test(document.body.textContent + document.title)"), f"{place}: unseen characters were not shown"
    page.size(1280, 900)
    page.open(1, world.place(uri, "phone"), author=MARKUP)
    page.sees("U+202E", "U+0007")
    # A line to paste into a terminal must do what it shows.
    assert page.run("return [...document.querySelectorAll('.command code')].every((one) => !/[\\u0000-\\u001f\\u202a-\\u202e]/.test(one.textContent))")
    assert "not safe in a terminal" in page.run("return document.querySelector('main').textContent")
    page.press("Keep this side")
    page.sees("Decided: side 1 stays.")


@scenario
def hostile_addresses(world):
    """Addresses with nonsense in them show a page that says so"""
    page = world.page
    for place in ["#/conflicts/%3Cscript%3E", "#/conflicts/Contact.p1.phone", "#/object/Nothing/p1", "#/object/Contact/p1", "#/data/%3Cimg%3E", "#/nothing/at/all", "#/conflicts/%ff", "#/conflicts?state=%00nonsense", "#/data/Contact?sort=nonsense"]:
        page.open(1, place)
        page.until("it says something", lambda: len(page.text("main")) > 20)
    page.go("#/conflicts")
    page.sees("Conflicts")
    page.complaints()


# Tokens

@scenario
def tokens(world):
    """A node with tokens asks once; read sees and cannot decide, write decides"""
    [conflict] = world.fight("Token Holder")
    page = world.page
    page.driver.get(page.bases[3] + "/inspector/icon.svg")
    page.run("sessionStorage.clear(); localStorage.setItem('tributary.author', 'tina')")
    page.driver.get(page.bases[3] + f"/#/conflicts/{conflict}")
    page.sees("This node wants a token")
    page.write("dialog input", "wrong-token-wrong-token")
    page.press("Use this token")
    page.sees("The node does not know this token.")
    page.write("dialog input", READ_TOKEN)
    page.press("Use this token")
    page.sees("Choose what stays", "Live")
    page.press("Keep this side")
    page.sees("This token may only read.")
    page.driver.refresh()
    page.sees("Choose what stays")
    page.press("Forget token")
    page.sees("This node wants a token")
    page.write("dialog input", WRITE_TOKEN)
    page.press("Use this token")
    page.ready()
    page.press("Keep this side")
    page.sees("Decided: side 1 stays.", "Decided by tina")
    assert page.run("return document.cookie") == "" and WRITE_TOKEN not in page.run("return JSON.stringify(localStorage)")


# Data

@scenario
def data(world):
    """Objects are found by a predicate, sorted and paged"""
    page = world.page
    page.open(1, "#/data/Contact?where=" + "name BEGINSWITH 'Many'")
    page.sees("60 objects; 1 to 50 are shown.")
    page.press("On", within=".pager")
    page.sees("60 objects; 51 to 60 are shown.")
    page.write("[name=where]", "shop.name == 'Harbour' AND name > 'F'")
    page.press("Find")
    page.sees("Gina", "Hugo", within="main")
    page.press("name", within="thead")
    page.until("sorted", lambda: "Finn" in page.rows()[0])
    page.press("name", within="thead")
    page.until("sorted the other way", lambda: "Jana" in page.rows()[0])
    assert page.run("return document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    page.run("document.querySelector('[data-key=who]').click()")
    page.sees("node 1", within="main table")
    line = next(one for one in lines_of_commands(page) if "--where" in one)
    assert "Jana" in world.cli(re.sub(r"--node \S+", f"--node {world.nodes[1].url}", line))
    page.open(1, "#/data/Contact?who=yes")
    page.sees("Ada Byron")
    world.image("data", 760)


@scenario
def wrong_predicate(world):
    """A wrong predicate says what is wrong and where"""
    page = world.page
    page.open(1, "#/data/Contact")
    page.write("[name=where]", "name BEGINSWITH ")
    page.keys(Keys.ENTER)
    page.sees("at character", within="[role=alert]")
    page.write("[name=where]", "nam == 'x'")
    page.keys(Keys.ENTER)
    page.sees("nam", within="[role=alert] .bad-text")


@scenario
def related(world):
    """From an object one walks to those that it is related to, and back"""
    page = world.page
    entity, number = world.people["Ada Byron"].split("/")[-2:]
    page.open(1, f"#/object/{entity}/{number}")
    page.sees("Related objects", "Bob Moran", "vip", "Harbour", within="main")
    page.press("Bob Moran", within="main")
    page.sees("Bob Moran", within="h1")
    page.press("Ada Byron", within="main")
    page.sees("Ada Byron", within="h1")
    page.driver.back()
    page.sees("Bob Moran", within="h1")


@scenario
def blame(world):
    """Beside each value stands who wrote it, what it was before and what it beat"""
    page = world.page
    entity, number = world.people["Ada Byron"].split("/")[-2:]
    page.open(1, f"#/object/{entity}/{number}")
    row = page.until("the row of the notes", lambda: page.run("return [...document.querySelectorAll('table.blame tbody tr')].find((one) => one.innerText.startsWith('notes'))?.innerText"))
    for text in ("was Prefers to be called in the morning. Speaks French.", "beside it", "the earliest write wins"):
        assert text in row, f"{text!r} is not in {row!r}"
    page.sees("Its life", "made", "changed", within="main")
    page.until("branches", lambda: len(page.all("main svg circle.apart")) >= 4)
    page.press("Version, address, command")
    page.sees("Version ", "x-tributary://contacts/Contact/")


@scenario
def past(world):
    """Objects are shown as they were at a moment"""
    uri = world.person("Past Person", notes="as it was")
    time.sleep(1.1)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    time.sleep(1.1)
    world.nodes[1].update(uri, {"notes": "as it is"}, author="anna")
    page = world.page
    entity, number = uri.split("/")[-2:]
    page.open(1, f"#/object/{entity}/{number}")
    page.sees("as it is", within="table.blame")
    page.write("[name=at]", moment)
    page.press("Show", within="form.marked")
    page.sees("Values at", "as it was", within="main")
    page.open(1, f"#/data/Contact?where=name == 'Past Person'&at={moment}")
    page.sees("as it was", within="main")
    page.write("[name=at]", "no moment")
    page.press("Find")
    page.until("it says what is wrong", lambda: page.text("main [role=alert]"))


@scenario
def undo_a_save(world):
    """A whole save is undone after a look at what that writes"""
    uri = world.person("Save Undone")
    world.nodes[1].update(uri, {"notes": "a mistake"}, author="anna")
    page = world.page
    entity, number = uri.split("/")[-2:]
    page.open(1, f"#/object/{entity}/{number}")
    page.press("Undo this save…")
    page.sees("Undo this save?", "notes gets no value")
    page.press("Undo it", within="dialog")
    page.sees("The save was undone.")
    wait_until("the notes are back", lambda: world.nodes[1].value(uri, "notes") is None)


# Nodes, time, model

@scenario
def node_map(world):
    """The map shows a cut link with its lag, and heals"""
    page = world.page
    page.open(1, "#/nodes")
    page.until("all links are up", lambda: "All links are up" in page.one("svg.map").get_attribute("aria-label"))
    # Nodes tell each other each second what they have.
    wait_until("nobody lacks anything", lambda: not any(peer["lag"] for peer in world.nodes[1].status()["peers"]))
    world.cut()
    for count in range(3):
        world.nodes[1].update(world.people["report"], {"notes": f"while cut {count}"}, author="anna")
    page.until("the link is cut", lambda: "Cut off: node 2" in page.one("svg.map").get_attribute("aria-label"), 20)
    page.sees("not connected", "lacks 3", within="main", seconds=10)
    page.until("a dashed line", lambda: page.all("svg .link.cut"))
    world.image("nodes", 900)
    world.heal()
    page.until("all links are up", lambda: "All links are up" in page.one("svg.map").get_attribute("aria-label"), 20)
    page.until("nothing is lacking", lambda: "lacks" not in page.text("svg.map"))


@scenario
def verify(world):
    """Digests are verified from the page"""
    page = world.page
    page.open(1, "#/nodes")
    page.press("Verify digests")
    page.sees("The store holds what was written", seconds=30)


@scenario
def timeline(world):
    """Saves that were made apart are branches on the timeline, which join again"""
    uri = world.person("Tim Line")
    world.apart({uri: ({"phone": "branch one"}, {"phone": "branch two"})}, contexts=("before lunch", "after lunch"))
    joined = world.nodes[1].ask("POST", f"/v1/conflicts/{world.id(uri, 'phone')}/resolution", {"side": 2, "author": "anna"})
    page = world.page
    page.open(1, "#/timeline")
    page.until("the joining save is there", lambda: page.all(f"[data-key='dot {joined['transaction']}']"))
    page.until("branches are marked", lambda: len(page.all("#saves circle.apart")) >= 2 and page.all("#saves .band"))
    row = page.run("return [...document.querySelectorAll('main table tbody tr')].map((one) => one.textContent).find((one) => one.includes('changed'))")
    assert row, "no row tells of a change"
    dots = page.run("return document.querySelector('main table tbody tr td:last-child').querySelectorAll('code.dot').length")
    assert dots >= 2, "the save that decided follows both branches"
    page.run("document.querySelector(\"[data-key='dot \" + arguments[0] + \"'] .dot\").dispatchEvent(new MouseEvent('click', { bubbles: true }))", joined["transaction"])
    page.sees("Save ", "branch two", "Tim Line", within="[aria-label='The chosen save']")
    world.image("timeline", 1000)
    # The picture is one stop of the Tab key; the arrows go along the saves.
    page.run("document.querySelector('#saves a[tabindex=\"0\"]').focus()")
    page.keys(Keys.ARROW_LEFT)
    page.keys(Keys.ARROW_LEFT)
    page.keys(Keys.ENTER)
    page.sees("branch one", within="[aria-label='The chosen save']")
    page.until("the focus is on the chosen save", lambda: page.run("return document.activeElement.getAttribute('aria-current')") == "true")
    page.sees("Conflicts over time", within="main")
    page.one("svg .bar")
    world.nodes[2].update(uri, {"phone": "one more"}, author="björn")
    page.until("a new save comes by itself", lambda: "björn" in page.run("return document.querySelector('main table tbody tr').textContent"), 3)


@scenario
def older_saves(world):
    """Of many saves the timeline shows the newest 200, and older ones page by page"""
    uri = world.person("Often Saved")
    for number in range(230):
        world.nodes[1].update(uri, {"notes": f"save {number}"}, author="often")
    page = world.page
    page.open(1, "#/timeline?author=often")
    page.sees("200 saves", within="main")
    assert page.run("return document.querySelectorAll('#saves a').length") == 200
    page.press("Older", within="main .pager")
    page.until("the first ones", lambda: 30 <= page.run("return document.querySelectorAll('#saves a').length") <= 32)
    page.press("Newer", within="main .pager")
    page.sees("200 saves", within="main")


@scenario
def model(world):
    """The model is drawn with its relationships, and told as a table"""
    page = world.page
    page.open(1, "#/model")
    page.sees("Contact", "Shop", "Supplier", "Tag", within="svg.model")
    lines = page.run("return [...document.querySelectorAll('svg.model title')].map((one) => one.textContent)")
    for line in ("Contact.shop to Shop, back by staff", "Contact.manager to Contact, back by reports", "Contact.tags to Tag, back by contacts", "Supplier inherits from Contact"):
        assert line in lines, lines
    page.press("As a table")
    page.sees("unique email", "many Tag", within="main table")


# How it is used

@scenario
def keyboard(world):
    """A conflict is found, opened, decided and undone with keys alone"""
    world.fight("Keyboard User")
    page = world.page
    page.open(1, "#/conflicts")
    page.keys("?")
    page.sees("Keys and help")
    page.keys(Keys.ESCAPE)
    page.keys("/")
    page.keys("Keyboard User")
    page.until("one row", lambda: len(page.rows()) == 1)
    page.keys(Keys.TAB)
    page.run("document.activeElement.blur()")
    page.keys("j")
    page.keys("x")
    page.sees("1 marked")
    page.keys(Keys.ENTER)
    page.sees("Choose what stays")
    page.keys("2")
    page.sees("Decided: side 2 stays.")
    page.until("the heading has the focus", lambda: page.run("return document.activeElement.id") == "heading")
    page.keys("u")
    page.sees("Undone. Readers see again")
    page.keys("g")
    page.keys("n")
    page.sees("Nodes", within="h1")
    page.until("the heading has the focus", lambda: page.run("return document.activeElement.id") == "heading")


@scenario
def keys_in_fields(world):
    """Single keys do nothing in fields, nor when they are turned off"""
    [conflict] = world.fight("Typing Person")
    page = world.page
    page.open(1, f"#/conflicts/{conflict}")
    page.one("#note").send_keys("1 2 u ? g n")
    time.sleep(0.5)
    page.sees("Choose what stays")
    assert page.run("return document.querySelector('#note').value") == "1 2 u ? g n"
    page.run("document.activeElement.blur()")
    page.keys("?")
    page.choose("Single keys", "off")
    page.keys(Keys.ESCAPE)
    page.run("document.activeElement.blur()")
    page.keys("1")
    page.keys("?")
    time.sleep(0.5)
    assert not page.all("dialog") and "Decided" not in page.text("#notices")
    page.run("localStorage.removeItem('tributary.keys')")


@scenario
def tab_order(world):
    """The Tab key reaches the skip link first, and every stop shows its focus"""
    page = world.page
    page.open(1, world.place(world.people["Ada Byron"], "phone"))
    page.run("document.querySelector('.brand').focus()")
    page.keys(Keys.SHIFT, Keys.TAB)
    first = page.run("return document.activeElement.outerHTML")
    assert "Skip" in first, first[:200]
    seen = []
    for _ in range(60):
        page.keys(Keys.TAB)
        style = page.run("const one = document.activeElement, style = getComputedStyle(one); return [one.tagName, one.textContent.slice(0, 30), style.outlineStyle, parseFloat(style.outlineWidth)]")
        if style[0] == "BODY":
            break
        seen.append(style[1])
        assert style[2] != "none" and style[3] >= 2, style
    assert any("Keep this side" in text for text in seen), seen


@scenario
def phone(world):
    """At 320 pixels no view scrolls sideways"""
    page = world.page
    entity, number = world.people["Ada Byron"].split("/")[-2:]
    for place in VIEWS + [world.place(world.people["Ada Byron"], "phone"), world.place(world.people["Ada Byron"], "photo"), f"#/object/{entity}/{number}"]:
        page.size(320, 640)
        page.open(1, place)
        over = page.overflow()
        assert not over, f"{place}: {over}"


@scenario
def zoom(world):
    """At 400 % zoom every view can be read and a conflict decided"""
    [conflict] = world.fight("Zoomed In")
    page = world.page
    page.size(320, 256, 4)
    for place in VIEWS:
        page.open(1, place)
        assert not page.overflow(), place
    page.open(1, f"#/conflicts/{conflict}")
    page.press("Keep this side")
    page.sees("Decided: side 1 stays.")
    assert page.run("return document.querySelector('.notices').getBoundingClientRect().height < innerHeight"), "the notice hides the page"


@scenario
def contrast(world):
    """All text has a contrast of 4.5 to 1, in light and in dark"""
    page = world.page
    entity, number = world.people["Ada Byron"].split("/")[-2:]
    for scheme in ("light", "dark"):
        page.prefers(prefers_color_scheme=scheme)
        for place in VIEWS + [world.place(world.people["Ada Byron"], "phone"), world.place(world.people["Ada Byron"], "photo"), "#/conflicts?state=resolved", f"#/object/{entity}/{number}"]:
            page.open(1, place)
            page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            poor = page.contrast()
            assert not poor, f"{scheme}, {place}: {poor[:4]}"
            if scheme == "dark" and "phone" in place:
                page.open(1, place)
                world.image("dark", 900)


@scenario
def accessible(world):
    """Every control has a name and a size, every view one heading"""
    page = world.page
    entity, number = world.people["Ada Byron"].split("/")[-2:]
    for place in VIEWS + [world.place(world.people["Ada Byron"], "phone"), f"#/object/{entity}/{number}"]:
        page.open(1, place)
        problems = page.accessible()
        assert not problems, f"{place}: {problems[:4]}"


@scenario
def motion(world):
    """Nothing moves for people who prefer that"""
    page = world.page
    page.prefers(prefers_reduced_motion="reduce")
    page.open(1, "#/conflicts?entity=")
    page.press("Decide all of this filter…")
    page.sees("Choose an entity first.")
    assert page.run("return document.getAnimations().length") == 0


@scenario
def routes(world):
    """Addresses lead into the page, its title and focus follow, and Back goes back"""
    page = world.page
    page.open(1, world.place(world.people["Ada Byron"], "phone"))
    assert "phone of Ada Byron" in page.driver.title and "node 1" in page.driver.title, page.driver.title
    page.press("Nodes")
    page.sees("Nodes", within="h1")
    assert page.driver.title.startswith("Nodes")
    page.driver.back()
    page.sees("phone of Ada Byron", within="h1")
    page.until("the heading has the focus", lambda: page.run("return document.activeElement.id") == "heading")
    page.open(1, "#/conflicts")
    page.until("there are rows", page.rows)
    assert page.run("return document.querySelector('#nav [aria-current]').textContent").startswith("Conflicts")
    world.image("conflicts", 900)


@scenario
def restart(world):
    """The page connects again after its node was restarted, and shows what came meanwhile"""
    page = world.page
    page.open(2, "#/data/Contact?where=" + "name == 'After Restart'")
    page.sees("Live")
    node = world.nodes[2]
    node.stop()
    page.sees("Not connected; trying again", seconds=10)
    world.nodes[1].insert("Contact", {"name": "After Restart", "email": "after@example.com"}, author="anna")
    node.start(world.binary)
    wait_until("the node is back", lambda: node.status()["node"] == 2, 30)
    page.sees("Live", within=".here", seconds=15)
    page.sees("1 object;", within="main", seconds=20)
    world.nodes.wait_connected()
    world.nodes.wait_equal()
    page.complaints()


@scenario
def odd_node(world):
    """A node in trouble, with 29 peers, 92 entities and conflicts of a kind to come, is shown whole"""
    page = world.page
    port = free_ports(1)[0]
    server = devserver.serve(port, "http://127.0.0.1:1", fakenode.Handler)
    page.bases["odd"] = f"http://127.0.0.1:{port}"
    try:
        page.open("odd", "#/nodes")
        page.sees("This node takes no saves", "Held back", "orphaned", "Old data waits: Node 3 is behind.", "A copy of node 2", "Parked values", "A read takes long", "12,345 conflicts", within="main")
        for place in ["#/nodes", "#/model", "#/conflicts", "#/conflicts?group=kind", "#/data/Loop", "#/timeline"] + [f"#/conflicts/Gone.p{n}.x" for n in range(9)]:
            for width in (1280, 320):
                page.size(width, 800)
                page.open("odd", place)
                assert "That did not work" not in page.text("h1"), f"{place}: {page.text('main')[:200]}"
                assert not page.overflow(), f"{place} at {width}: {page.overflow()}"
            problems = page.contrast() + page.accessible()
            assert not problems, f"{place}: {problems[:4]}"
    finally:
        server.shutdown()


@scenario
def ten_thousand(world):
    """A list of 10,000 conflicts comes in pages and stays quick"""
    n1, n2 = world.nodes[1], world.nodes[2]
    size = 10_000
    ids = n1.ask("POST", "/v1/save", {"operations": [{"insert": "Contact", "id": f"@b{i}", "values": {"name": f"Bulk {i}", "email": f"b{i}@x"}} for i in range(size)]}, 120)["ids"].values()
    wait_until("node 2 has them", lambda: n2.status()["vector"] == n1.status()["vector"], 120)
    world.cut()
    for node, phone in ((n1, "1"), (n2, "2")):
        node.ask("POST", "/v1/save", {"operations": [{"update": uri, "values": {"phone": phone}} for uri in ids], "author": f"bulk {phone}"}, 120)
    world.nodes.heal(wait=False)
    wait_until("the conflicts are there", lambda: n1.status()["conflicts"]["unresolved"]["update"] >= size, 120)
    world.is_cut = False
    page = world.page
    began = time.monotonic()
    page.open(1, "#/conflicts")
    page.until("a page of them", lambda: len(page.rows()) == 100)
    assert time.monotonic() - began < 8, "the first page took too long"
    page.press("Older", within=".pager")
    page.sees("Page 2")
    page.until("a page of them", lambda: len(page.rows()) == 100)
    began = time.monotonic()
    page.open(1, "#/conflicts?q=Bulk%2099")
    page.until("some are found", page.rows, 20)
    page.sees("among the newest 2,000")
    assert time.monotonic() - began < 20
    pause = page.run("const start = performance.now(); document.querySelector('[data-key=all]').click(); return performance.now() - start")
    assert pause < 500, f"marking a page took {pause} ms"
