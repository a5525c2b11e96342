"""A page in headless Chromium, with waits that are bounded and with what must never happen."""

import time

from selenium import webdriver
from selenium.common.exceptions import ElementClickInterceptedException, JavascriptException, NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# Before any script of the page: collects what breaks the policy.
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""

# The contrast of each text with the ground that it stands on, as WCAG computes it.
CONTRAST = """
const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const rgba = (text) => {
  probe.clearRect(0, 0, 1, 1); probe.fillStyle = text; probe.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const light = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor));
  return layers.reduce((below, top) => over(top, below), rgba(getComputedStyle(document.documentElement).backgroundColor));
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || element.closest('.hidden, noscript, script')) continue;
  if (!element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height) continue;
  const style = getComputedStyle(element);
  let below;
  if (element instanceof SVGElement) {
    // What is drawn below a text: the last shape before it that holds its middle.
    below = ground(element.ownerSVGElement);
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    for (const shape of element.ownerSVGElement.querySelectorAll('rect, circle, path.head')) {
      if (shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING) continue;
      const place = shape.getBoundingClientRect();
      const fill = getComputedStyle(shape).fill;
      if (fill !== 'none' && x >= place.left && x <= place.right && y >= place.top && y <= place.bottom) below = over(rgba(fill), below);
    }
  } else below = ground(element);
  const color = over(rgba(element instanceof SVGElement ? style.fill : style.color), below);
  const [a, b] = [light(color), light(below)].sort((one, two) => two - one);
  const ratio = (a + 0.05) / (b + 0.05);
  const least = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  if (ratio < least) found.push(`${walker.currentNode.textContent.trim().slice(0, 40)} (${element.tagName}.${element.getAttribute('class')}): ${ratio.toFixed(2)}`);
}
return found;
"""

# Names that a screen reader would say, and what else every view must have.
ACCESSIBLE = """
const problems = [];
const nameOf = (one) => (one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent || one.title || '').trim();
for (const one of document.querySelectorAll('button, a, input, select, textarea, summary, [role=group], [role=region], svg[role=img]')) {
  if (!nameOf(one)) problems.push('no name: ' + one.outerHTML.slice(0, 120));
}
if (document.querySelectorAll('h1').length !== 1) problems.push('not one h1');
if (document.documentElement.lang !== 'en') problems.push('no language');
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => problems.push('twice the id ' + id));
let last = 1;
for (const one of document.querySelectorAll('main :is(h1, h2, h3, h4)')) {
  const level = Number(one.tagName[1]);
  if (level > last + 1) problems.push(`from h${last} to h${level}: ${one.textContent}`);
  last = level;
}
for (const one of document.querySelectorAll('div, span, li, td')) if (one.onclick) problems.push('a click on no button');
for (const one of document.querySelectorAll('main button, main a, main summary, main input, main select')) {
  const box = one.getBoundingClientRect();
  const isInText = one.tagName === 'A' || one.closest('svg');
  if (box.width && !isInText && (box.width < 24 || box.height < 23.5)) problems.push(`smaller than 24 pixels: ${one.outerHTML.slice(0, 100)} ${box.width}x${box.height}`);
}
return problems;
"""


class Page:
    def __init__(self, chromium, driver, download):
        options = Options()
        options.binary_location = chromium
        # The sandbox needs rights that a container may lack; all that is shown comes from loopback.
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--lang=en-GB", f"--user-data-dir={download}", "--disable-background-networking", "--no-first-run"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.driver.set_script_timeout(20)
        self.driver.set_page_load_timeout(30)
        self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        self.bases = {}
        self.size(1280, 900)

    def quit(self):
        self.driver.quit()

    # What is set for a while

    def size(self, width, height, scale=1):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False})

    def prefers(self, **features):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    # Going somewhere

    def open(self, node, place="", author="tester"):
        """Loads the page anew at a node, as somebody who gave a name (or None)."""
        self.driver.get(self.bases[node] + "/inspector/icon.svg")
        if author:
            self.run("localStorage.setItem('tributary.author', arguments[0])", author)
        else:
            self.run("localStorage.clear()")
        self.driver.get(self.bases[node] + "/" + place)
        if node != 3:
            self.ready()

    def go(self, place):
        self.run("location.hash = arguments[0]", place)
        self.ready()

    def ready(self):
        """Waits until the view is there and nothing is being read."""
        self.until("the view is shown", lambda: self.run(
            "return document.querySelector('#heading') && !document.querySelector('main[aria-busy]') && !/Reading…/.test(document.querySelector('main').textContent)"))

    # Looking

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, what, condition, seconds=10):
        end = time.monotonic() + seconds
        while True:
            try:
                found = condition()
            except (StaleElementReferenceException, NoSuchElementException, JavascriptException, ElementClickInterceptedException):
                found = None
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds} s still not: {what}\nThe page: {self.text()[:1500]}")
            time.sleep(0.05)

    def text(self, selector="body"):
        return self.run("const one = document.querySelector(arguments[0]); return one?.innerText ?? one?.textContent ?? ''", selector)

    def sees(self, *texts, within="body", seconds=10):
        """Waits until all texts stand on the page."""
        for text in texts:
            self.until(f"{text!r} stands in {within}", lambda: text in self.text(within), seconds)

    def sees_not(self, text, within="body", seconds=10):
        self.until(f"{text!r} is gone from {within}", lambda: text not in self.text(within), seconds)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector, seconds=10):
        return self.until(f"there is {selector}", lambda: next(iter(self.all(selector)), None), seconds)

    def rows(self):
        return self.run("return [...document.querySelectorAll('main [data-row]')].map((one) => one.innerText)")

    # Doing

    def press(self, text, within="body", seconds=10):
        """Presses the button or link with a text."""
        script = """
        const shown = (one) => one.checkVisibility() && !one.disabled;
        return [...document.querySelector(arguments[1])?.querySelectorAll('button, a, summary') ?? []].find((one) => shown(one) && one.textContent.trim().startsWith(arguments[0]));
        """

        def click():
            element = self.run(script, text, within)
            if element:
                self.run("arguments[0].scrollIntoView({ block: 'center' })", element)
                # What came from a node may put another element in its place now, and then it is looked for again.
                element.click()
            return element

        self.until(f"there is a button {text!r} in {within}", click, seconds)

    def keys(self, *keys):
        active = self.driver.switch_to.active_element
        active.send_keys(*keys)

    def write(self, selector, text):
        element = self.one(selector)
        element.send_keys(Keys.CONTROL, "a")
        element.send_keys(text if text else Keys.DELETE)
        return element

    def choose(self, label, value):
        script = """
        const select = [...document.querySelectorAll('label.field')].find((one) => one.checkVisibility() && one.firstChild.textContent === arguments[0])?.querySelector('select');
        if (!select) return false;
        select.value = arguments[1];
        select.dispatchEvent(new Event('change', { bubbles: true }));
        return true;
        """
        self.until(f"there is a choice {label}", lambda: self.run(script, label, value))

    # Judging

    def complaints(self):
        """What the browser has said since the last time, without answers that the page asks for on purpose."""
        found = [entry["message"] for entry in self.driver.get_log("browser")
                 if entry["level"] in ("SEVERE", "WARNING")
                 and not ("Failed to load resource" in entry["message"] and "/v1/" in entry["message"])
                 and "favicon.ico" not in entry["message"]
                 and not ("ERR_" in entry["message"] and "/v1/" in entry["message"])]
        return found + (self.run("return (window.violations ?? []).concat(window.hacked ? ['a script of the data ran'] : [])") or [])

    def contrast(self):
        return self.run(CONTRAST)

    def accessible(self):
        return self.run(ACCESSIBLE)

    def overflow(self):
        """By how much the page is wider than its window, and what is too wide."""
        return self.run("""
        const wide = document.documentElement.clientWidth;
        const over = document.documentElement.scrollWidth - wide;
        if (over <= 0) return null;
        const who = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > wide + 1 && !one.closest('.picture, .scroll, .window, .hex')).slice(0, 3);
        return over + ' pixels: ' + who.map((one) => one.outerHTML.slice(0, 120)).join(' | ');
        """)

    def shot(self, path, height=None):
        if height:
            self.size(1280, height)
            time.sleep(0.2)
        self.driver.save_screenshot(str(path))
